//! NCCL's own runtime parameters: those its documentation names, with what holds while they are unset.
//!
//! A simulation obeys few of them; it knows the rest so that programs which ask get the answer NCCL would give.

/// One runtime parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The environment variable.
    pub name: &'static str,
    /// What it is while unset; empty where that is no value.
    pub default: &'static str,
    /// Whether it is a number.
    pub is_number: bool,
}

const fn number(name: &'static str, default: &'static str) -> Parameter {
    Parameter { name, default, is_number: true }
}

const fn text(name: &'static str, default: &'static str) -> Parameter {
    Parameter { name, default, is_number: false }
}

/// The parameters, by name.
pub const PARAMETERS: &[Parameter] = &[
    text("NCCL_ALGO", ""),
    number("NCCL_ALLOC_P2P_NET_LL_BUFFERS", "0"),
    number("NCCL_BUFFSIZE", "4194304"),
    number("NCCL_CGA_CLUSTER_SIZE", "-1"),
    number("NCCL_CHECKS_DISABLE", "0"),
    number("NCCL_CHECK_POINTERS", "0"),
    number("NCCL_COLLNET_ENABLE", "0"),
    number("NCCL_COLLNET_NODE_THRESHOLD", "2"),
    number("NCCL_COMM_BLOCKING", "-1"),
    text("NCCL_COMM_ID", ""),
    number("NCCL_COMM_SHRINK_SHARE_RESOURCES", "-1"),
    number("NCCL_COMM_SPLIT_SHARE_RESOURCES", "-1"),
    text("NCCL_CONF_FILE", ""),
    number("NCCL_CREATE_THREAD_CONTEXT", "0"),
    number("NCCL_CROSS_NIC", "2"),
    number("NCCL_CTA_POLICY", "-1"),
    number("NCCL_CUMEM_ENABLE", "-2"),
    number("NCCL_CUMEM_HOST_ENABLE", "-1"),
    text("NCCL_DEBUG", "WARN"),
    text("NCCL_DEBUG_FILE", ""),
    text("NCCL_DEBUG_SUBSYS", "INIT,BOOTSTRAP,ENV"),
    text("NCCL_DEBUG_TIMESTAMP_FORMAT", "[%F %T]"),
    text("NCCL_DEBUG_TIMESTAMP_LEVELS", "WARN"),
    number("NCCL_DMABUF_ENABLE", "1"),
    text("NCCL_GRAPH_DUMP_FILE", ""),
    text("NCCL_GRAPH_FILE", ""),
    number("NCCL_GRAPH_MIXING_SUPPORT", "1"),
    number("NCCL_GRAPH_REGISTER", "1"),
    text("NCCL_HOSTID", ""),
    number("NCCL_IB_ADAPTIVE_ROUTING", "-2"),
    number("NCCL_IB_AR_THRESHOLD", "8192"),
    number("NCCL_IB_CUDA_SUPPORT", "1"),
    number("NCCL_IB_DISABLE", "0"),
    number("NCCL_IB_GID_INDEX", "-1"),
    text("NCCL_IB_HCA", ""),
    number("NCCL_IB_MERGE_NICS", "1"),
    number("NCCL_IB_PCI_RELAXED_ORDERING", "2"),
    number("NCCL_IB_PKEY", "0"),
    number("NCCL_IB_QPS_PER_CONNECTION", "1"),
    number("NCCL_IB_RETRY_CNT", "7"),
    number("NCCL_IB_RETURN_ASYNC_EVENTS", "1"),
    number("NCCL_IB_ROCE_VERSION_NUM", "2"),
    number("NCCL_IB_SL", "0"),
    number("NCCL_IB_SPLIT_DATA_ON_QPS", "0"),
    number("NCCL_IB_TC", "0"),
    number("NCCL_IB_TIMEOUT", "20"),
    number("NCCL_IGNORE_CPU_AFFINITY", "0"),
    text("NCCL_LAUNCH_MODE", "PARALLEL"),
    number("NCCL_LAUNCH_ORDER_IMPLICIT", "0"),
    number("NCCL_LAUNCH_RACE_FATAL", "1"),
    number("NCCL_LL128_BUFFSIZE", "-2"),
    number("NCCL_LL_BUFFSIZE", "-2"),
    number("NCCL_LOCAL_REGISTER", "1"),
    number("NCCL_MAX_CTAS", "-1"),
    number("NCCL_MAX_NCHANNELS", "-2"),
    number("NCCL_MAX_P2P_NCHANNELS", "-2"),
    number("NCCL_MEM_SYNC_DOMAIN", "1"),
    number("NCCL_MIN_CTAS", "-1"),
    number("NCCL_MIN_NCHANNELS", "-2"),
    number("NCCL_MIN_P2P_NCHANNELS", "1"),
    number("NCCL_MNNVL_CLIQUE_ID", "-1"),
    number("NCCL_MNNVL_ENABLE", "2"),
    number("NCCL_MULTI_RANK_GPU_ENABLE", "0"),
    number("NCCL_NCHANNELS_PER_NET_PEER", "-1"),
    text("NCCL_NET", ""),
    number("NCCL_NET_FORCE_FLUSH", "0"),
    text("NCCL_NET_GDR_LEVEL", ""),
    number("NCCL_NET_GDR_READ", "-2"),
    text("NCCL_NET_MERGE_LEVEL", "PORT"),
    text("NCCL_NET_PLUGIN", ""),
    number("NCCL_NET_SHARED_BUFFERS", "-2"),
    number("NCCL_NET_SHARED_COMMS", "1"),
    number("NCCL_NSOCKS_PERTHREAD", "-2"),
    number("NCCL_NTHREADS", "-2"),
    number("NCCL_NVB_DISABLE", "0"),
    number("NCCL_NVLS_ENABLE", "2"),
    number("NCCL_NVTX_DISABLE", "0"),
    number("NCCL_OOB_NET_ENABLE", "0"),
    text("NCCL_OOB_NET_IFNAME", ""),
    number("NCCL_P2P_DIRECT_DISABLE", "0"),
    number("NCCL_P2P_DISABLE", "0"),
    text("NCCL_P2P_LEVEL", ""),
    number("NCCL_P2P_LL_THRESHOLD", "16384"),
    number("NCCL_P2P_NET_CHUNKSIZE", "131072"),
    number("NCCL_P2P_NVL_CHUNKSIZE", "524288"),
    number("NCCL_P2P_PCI_CHUNKSIZE", "131072"),
    text("NCCL_PROFILER_PLUGIN", ""),
    text("NCCL_PROTO", ""),
    number("NCCL_PXN_DISABLE", "0"),
    text("NCCL_RAS_ADDR", "localhost:28028"),
    number("NCCL_RAS_ENABLE", "1"),
    number("NCCL_RAS_TIMEOUT_FACTOR", "1"),
    number("NCCL_SET_STACK_SIZE", "0"),
    number("NCCL_SET_THREAD_NAME", "0"),
    number("NCCL_SHM_DISABLE", "0"),
    text("NCCL_SOCKET_FAMILY", ""),
    text("NCCL_SOCKET_IFNAME", ""),
    number("NCCL_SOCKET_NTHREADS", "-2"),
    number("NCCL_SOCKET_RETRY_CNT", "34"),
    number("NCCL_SOCKET_RETRY_SLEEP_MSEC", "100"),
    text("NCCL_THREAD_THRESHOLDS", ""),
    text("NCCL_TOPO_DUMP_FILE", ""),
    text("NCCL_TOPO_FILE", ""),
    text("NCCL_TUNER_CONFIG_FILE", ""),
    text("NCCL_TUNER_PLUGIN", ""),
    number("NCCL_WIN_ENABLE", "1"),
    number("NCCL_WIN_STRIDE", "-1"),
    number("NCCL_WORK_ARGS_BYTES", "-1"),
    number("NCCL_WORK_FIFO_BYTES", "1048576"),
];

/// The parameter that a key means: its variable, with or without `NCCL_`.
pub fn find(key: &str) -> Option<&'static Parameter> {
    let bare = key.strip_prefix("NCCL_").unwrap_or(key);
    PARAMETERS.iter().find(|parameter| parameter.name.strip_prefix("NCCL_") == Some(bare))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_stands_once_in_order_and_numbers_are_numbers() {
        assert!(PARAMETERS.is_sorted_by(|a, b| a.name < b.name));
        for parameter in PARAMETERS {
            assert!(parameter.name.starts_with("NCCL_"), "{parameter:?}");
            assert_eq!(parameter.default.parse::<i64>().is_ok(), parameter.is_number, "{parameter:?}");
        }
    }

    #[test]
    fn a_key_is_a_variable_with_or_without_its_prefix() {
        assert_eq!(find("NCCL_BUFFSIZE"), find("BUFFSIZE"));
        assert!(find("BUFFSIZE").is_some() && find("BUFFSIZES").is_none());
    }
}
