/*
 * FakeGPU's nccl.h: the C interface of NCCL 2.32.3, for programs built without CUDA.
 *
 * Generated from the table in crates/nccl-abi; do not edit. `cargo xtask codegen` writes it.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef NCCL_H_
#define NCCL_H_

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CUDA's own declarations where they can be had; otherwise the same two types. */
#if defined(__has_include)
#if __has_include(<cuda_runtime.h>)
#include <cuda_runtime.h>
#define FAKEGPU_HAS_CUDA_RUNTIME 1
#endif
#endif
#if !defined(FAKEGPU_HAS_CUDA_RUNTIME) && !defined(__CUDA_RUNTIME_H__) && !defined(__DRIVER_TYPES_H__)
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
#endif

#define NCCL_MAJOR 2
#define NCCL_MINOR 32
#define NCCL_PATCH 3
#define NCCL_SUFFIX ""
#define NCCL_VERSION_CODE 23203
/* The code of any version; 2.8 and older counted in thousands. */
#define NCCL_VERSION(major, minor, patch) \
  (((major) <= 2 && (minor) <= 8) ? (major) * 1000 + (minor) * 100 + (patch) \
                                  : (major) * 10000 + (minor) * 100 + (patch))

/* Bytes of a ncclUniqueId. */
#define NCCL_UNIQUE_ID_BYTES 128
/* No communicator. */
#define NCCL_COMM_NULL NULL
/* Shows that an initializer ran. */
#define NCCL_API_MAGIC 0xcafebeef
/* A setting left alone. */
#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT -1.0f
/* ncclCommSplit: join no child. */
#define NCCL_SPLIT_NOCOLOR -1
/* ncclCommShrink flags: the parent stays usable, or is aborted first. */
#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01
/* ncclCommRevoke: the only flags there are. */
#define NCCL_REVOKE_DEFAULT 0x00
/* ncclCommSuspend: give device memory back. */
#define NCCL_SUSPEND_MEM 0x01
/* ncclCommWindowRegister flags. */
#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_STRICT_ORDERING 0x02
#define NCCL_WIN_GIN_ONLY 0x04
#define NCCL_WIN_CFT_COUNTED 0x08
/* Alignment of a window's buffer, in bytes. */
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096
/* Thread-block policies. */
#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02

#ifdef __cplusplus
extern "C" {
#endif

/* What callers hold and only the library looks into. */
typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;
typedef struct ncclParamHandle *ncclParamHandle_t;

/* How a call ended. */
typedef enum {
  ncclSuccess = 0, /* It did what was asked. */
  ncclUnhandledCudaError = 1, /* A CUDA call failed. */
  ncclSystemError = 2, /* A system call, a socket or a peer's process failed. */
  ncclInternalError = 3, /* A bug in the library. */
  ncclInvalidArgument = 4, /* An argument is out of range. */
  ncclInvalidUsage = 5, /* The arguments are fine, the call is not: wrong moment, or ranks disagree. */
  ncclRemoteError = 6, /* A peer failed or the network did. */
  ncclInProgress = 7, /* A non-blocking call has not ended yet. */
  ncclTimeout = 8, /* It took longer than allowed. */
  ncclNumResults = 9 /* How many codes there are. */
} ncclResult_t;

/* An element type. */
typedef enum {
  ncclInt8 = 0, /* Signed, 8 bits. */
  ncclChar = 0, /* Alias of ncclInt8. */
  ncclUint8 = 1, /* Unsigned, 8 bits. */
  ncclInt32 = 2, /* Signed, 32 bits. */
  ncclInt = 2, /* Alias of ncclInt32. */
  ncclUint32 = 3, /* Unsigned, 32 bits. */
  ncclInt64 = 4, /* Signed, 64 bits. */
  ncclUint64 = 5, /* Unsigned, 64 bits. */
  ncclFloat16 = 6, /* IEEE binary16. */
  ncclHalf = 6, /* Alias of ncclFloat16. */
  ncclFloat32 = 7, /* IEEE binary32. */
  ncclFloat = 7, /* Alias of ncclFloat32. */
  ncclFloat64 = 8, /* IEEE binary64. */
  ncclDouble = 8, /* Alias of ncclFloat64. */
  ncclBfloat16 = 9, /* The upper half of a binary32. */
  ncclFloat8e4m3 = 10, /* 8 bits, 4 of them exponent, no infinity. */
  ncclFloat8e5m2 = 11, /* 8 bits, 5 of them exponent. */
  ncclNumTypes = 12 /* How many types there are. */
} ncclDataType_t;

/* A reduction operator. Values from ncclNumOps on are made by ncclRedOpCreatePreMulSum. */
typedef enum {
  ncclSum = 0, /* Sum. */
  ncclProd = 1, /* Product. */
  ncclMax = 2, /* Largest. */
  ncclMin = 3, /* Smallest. */
  ncclAvg = 4, /* Sum divided by the number of ranks. */
  ncclNumOps = 5, /* How many operators are built in. */
  ncclMaxRedOp = INT_MAX /* The largest value an operator can have. */
} ncclRedOp_t;

/* Where the scalar of ncclRedOpCreatePreMulSum lives. */
typedef enum {
  ncclScalarDevice = 0, /* In device memory, read when an operation runs. */
  ncclScalarHostImmediate = 1 /* In host memory, read before the call returns. */
} ncclScalarResidence_t;

/* What ncclCommMemStats is asked for, in bytes. */
typedef enum {
  ncclStatGpuMemSuspend = 0, /* Memory that a suspend would give back. */
  ncclStatGpuMemSuspended = 1, /* Memory given back by a suspend in force. */
  ncclStatGpuMemPersist = 2, /* Memory kept through a suspend. */
  ncclStatGpuMemTotal = 3 /* All memory of the communicator. */
} ncclCommMemStat_t;

/* Host use of logical endpoints. */
typedef enum {
  ncclHostCftDefault = INT_MIN, /* The library decides. */
  ncclHostCftEnable = 1, /* On. */
  ncclHostCftDisable = 2, /* Off. */
  ncclHostCftFallback = 3 /* On where available. */
} ncclHostCftMode_t;

/* Which parts of NVLink SHARP host code may use; the disabling values combine. */
typedef enum {
  ncclNvlsHostModeDefault = INT_MIN, /* The library decides. */
  ncclNvlsHostModeEnable = 0, /* All. */
  ncclNvlsHostModeDisableTransport = 1, /* Not the transport and its registered buffers. */
  ncclNvlsHostModeDisableSymmetricMultimem = 2, /* Not multimem in symmetric kernels. */
  ncclNvlsHostModeDisable = INT_MAX /* None. */
} ncclNvlsHostMode_t;

/* How the library's own sockets are protected. */
typedef enum {
  NCCL_ENCRYPTION_MODE_NONE = 0, /* Not at all. */
  NCCL_ENCRYPTION_MODE_PSK = 1 /* By a key both sides know. */
} ncclEncryptionMode_t;

/* Which ranks device-initiated networking connects. */
typedef enum {
  NCCL_GIN_CONNECTION_NONE = 0, /* None. */
  NCCL_GIN_CONNECTION_FULL = 1, /* Each with each. */
  NCCL_GIN_CONNECTION_RAIL = 2, /* Those of one rail. */
  NCCL_GIN_CONNECTION_CUSTOM_STRIDE = 3 /* Those a fixed stride apart. */
} ncclGinConnectionType_t;

/* The implementation behind device-initiated networking. */
typedef enum {
  NCCL_GIN_TYPE_NONE = 0, /* None, or any that is there. */
  NCCL_GIN_TYPE_PROXY = 2, /* A host thread. */
  NCCL_GIN_TYPE_GDAKI = 3, /* GPUDirect async, kernel-initiated. */
  NCCL_GIN_TYPE_GPI = 4, /* GPU push interface. */
  NCCL_GIN_TYPE_EFA_GDA = 5, /* EFA GPUDirect async. */
  NCCL_GIN_MAX_TYPES = 6 /* One more than the largest. */
} ncclGinType_t;

/* How ranks reachable by logical endpoints form a team. */
typedef enum {
  NCCL_CFT_TEAM_FLAT = 0, /* All in one. */
  NCCL_CFT_TEAM_HIER_MULTIMEM = 1, /* One per multicast domain. */
  NCCL_CFT_TEAM_HIER_LSA = 2 /* One per shared-memory domain. */
} ncclCftTeamMode_t;

/* The bytes by which ranks find each other. */
typedef struct ncclUniqueId {
  char internal[NCCL_UNIQUE_ID_BYTES]; /* Opaque to the caller; shared by any means. */
} ncclUniqueId;

/* Settings of a communicator. Start from NCCL_CONFIG_INITIALIZER; members are only ever appended. */
typedef struct ncclConfig_v23100 {
  size_t size; /* Bytes of the struct the caller was compiled with. */
  unsigned int magic; /* NCCL_API_MAGIC. */
  unsigned int version; /* NCCL_VERSION_CODE the caller was compiled with. */
  int blocking; /* 0: calls return at once and ncclCommGetAsyncError tells how they ended. */
  int cgaClusterSize; /* Thread-block cluster size. */
  int minCTAs; /* Fewest thread blocks per operation. */
  int maxCTAs; /* Most thread blocks per operation. */
  const char *netName; /* Name of the network to use. */
  int splitShare; /* 1: a split shares its parent's resources. */
  int trafficClass; /* Traffic class of the network. */
  const char *commName; /* Name of the communicator, for logs. */
  int collnetEnable; /* 1: in-network reduction allowed. */
  int CTAPolicy; /* NCCL_CTA_POLICY_ bits. */
  int shrinkShare; /* 1: a shrink shares its parent's resources. */
  int nvlsCTAs; /* Thread blocks for NVLink SHARP. */
  int nChannelsPerNetPeer; /* Channels per peer over the network. */
  int nvlinkCentricSched; /* 1: schedule for NVLink. */
  int graphUsageMode; /* How the communicator is used with CUDA graphs. */
  int numRmaCtx; /* Contexts for one-sided operations. */
  int maxP2pPeers; /* Most peers for point-to-point operations. */
  int graphStreamOrdering; /* Order between graphs and streams. */
  int launchOrderImplicit; /* 1: launches of several communicators are ordered for the caller. */
  int numRmaSig; /* Signals for one-sided operations. */
  int rmaEagerInit; /* 1: prepare one-sided operations at creation. */
  int hostCftMode; /* A ncclHostCftMode_t. */
  int nvlsHostMode; /* A ncclNvlsHostMode_t. */
} ncclConfig_t;
#define NCCL_CONFIG_INITIALIZER { \
  sizeof(ncclConfig_t), /* size */ \
  NCCL_API_MAGIC, /* magic */ \
  NCCL_VERSION_CODE, /* version */ \
  NCCL_CONFIG_UNDEF_INT, /* blocking */ \
  NCCL_CONFIG_UNDEF_INT, /* cgaClusterSize */ \
  NCCL_CONFIG_UNDEF_INT, /* minCTAs */ \
  NCCL_CONFIG_UNDEF_INT, /* maxCTAs */ \
  NCCL_CONFIG_UNDEF_PTR, /* netName */ \
  NCCL_CONFIG_UNDEF_INT, /* splitShare */ \
  NCCL_CONFIG_UNDEF_INT, /* trafficClass */ \
  NCCL_CONFIG_UNDEF_PTR, /* commName */ \
  NCCL_CONFIG_UNDEF_INT, /* collnetEnable */ \
  NCCL_CONFIG_UNDEF_INT, /* CTAPolicy */ \
  NCCL_CONFIG_UNDEF_INT, /* shrinkShare */ \
  NCCL_CONFIG_UNDEF_INT, /* nvlsCTAs */ \
  NCCL_CONFIG_UNDEF_INT, /* nChannelsPerNetPeer */ \
  NCCL_CONFIG_UNDEF_INT, /* nvlinkCentricSched */ \
  NCCL_CONFIG_UNDEF_INT, /* graphUsageMode */ \
  NCCL_CONFIG_UNDEF_INT, /* numRmaCtx */ \
  NCCL_CONFIG_UNDEF_INT, /* maxP2pPeers */ \
  NCCL_CONFIG_UNDEF_INT, /* graphStreamOrdering */ \
  NCCL_CONFIG_UNDEF_INT, /* launchOrderImplicit */ \
  NCCL_CONFIG_UNDEF_INT, /* numRmaSig */ \
  NCCL_CONFIG_UNDEF_INT, /* rmaEagerInit */ \
  NCCL_CONFIG_UNDEF_INT, /* hostCftMode */ \
  NCCL_CONFIG_UNDEF_INT, /* nvlsHostMode */ \
}

/* A vendor's option for one call, in a list. */
typedef struct ncclConfigExt {
  struct ncclConfigExt *next; /* The next option, or NULL. */
  struct { int vendorId; int optionId; } key; /* Names the option. */
  union { int i; const char *s; void *raw; } val; /* Its value. */
} ncclConfigExt_t;

/* Settings of one collective call. Start from NCCL_COLLCONFIG_INITIALIZER. */
typedef struct ncclCollConfig_v23200 {
  size_t size; /* Bytes of the struct the caller was compiled with. */
  unsigned int magic; /* NCCL_API_MAGIC. */
  unsigned int version; /* NCCL_VERSION_CODE the caller was compiled with. */
  ncclConfigExt_t *ext; /* Vendors' options, or NULL. */
  int minCTAs; /* Fewest thread blocks. */
  int maxCTAs; /* Most thread blocks. */
  int nvlsCTAs; /* Thread blocks for NVLink SHARP. */
  int cgaClusterSize; /* Thread-block cluster size. */
  const char *algSelection; /* Algorithms this call may use, or NULL. */
  int forceAlgSelection; /* 1: an algSelection that cannot be met is an error. */
  int CTAPolicy; /* NCCL_CTA_POLICY_ bits. */
  uint64_t userProfilerTag; /* Handed to profiler plugins as it is. */
  cudaEvent_t launchCompletionEvent; /* Recorded when the kernel has been launched, or NULL. */
} ncclCollConfig_t;
#define NCCL_COLLCONFIG_INITIALIZER { \
  sizeof(ncclCollConfig_t), /* size */ \
  NCCL_API_MAGIC, /* magic */ \
  NCCL_VERSION_CODE, /* version */ \
  NCCL_CONFIG_UNDEF_PTR, /* ext */ \
  NCCL_CONFIG_UNDEF_INT, /* minCTAs */ \
  NCCL_CONFIG_UNDEF_INT, /* maxCTAs */ \
  NCCL_CONFIG_UNDEF_INT, /* nvlsCTAs */ \
  NCCL_CONFIG_UNDEF_INT, /* cgaClusterSize */ \
  NCCL_CONFIG_UNDEF_PTR, /* algSelection */ \
  1, /* forceAlgSelection */ \
  NCCL_CONFIG_UNDEF_INT, /* CTAPolicy */ \
  0, /* userProfilerTag */ \
  NCCL_CONFIG_UNDEF_PTR, /* launchCompletionEvent */ \
}

/* What ncclGroupSimulateEnd estimates. Start from NCCL_SIM_INFO_INITIALIZER. */
typedef struct ncclSimInfo_v22200 {
  size_t size; /* Bytes of the struct the caller was compiled with. */
  unsigned int magic; /* A magic of its own. */
  unsigned int version; /* NCCL_VERSION_CODE the caller was compiled with. */
  float estimatedTime; /* Estimated time of the group in microseconds. */
} ncclSimInfo_t;
#define NCCL_SIM_INFO_INITIALIZER { \
  sizeof(ncclSimInfo_t), /* size */ \
  0x74685283, /* magic */ \
  NCCL_VERSION_CODE, /* version */ \
  NCCL_UNDEF_FLOAT, /* estimatedTime */ \
}

/* How many signals of one peer to wait for. */
typedef struct ncclWaitSignalDesc {
  int opCnt; /* Signals to wait for. */
  int peer; /* Rank that sends them. */
  int sigIdx; /* Signal index; 0. */
  int ctx; /* Context; 0. */
} ncclWaitSignalDesc_t;

/* How to protect the library's sockets. Start from NCCL_ENCRYPTION_CONFIG_INITIALIZER. */
typedef struct ncclEncryptionConfig_v23200 {
  size_t size; /* Bytes of the struct the caller was compiled with. */
  unsigned int magic; /* NCCL_API_MAGIC. */
  unsigned int version; /* NCCL_VERSION_CODE the caller was compiled with. */
  int mode; /* A ncclEncryptionMode_t. */
  const char *psk; /* The shared key, or NULL. */
} ncclEncryptionConfig_t;
#define NCCL_ENCRYPTION_CONFIG_INITIALIZER { \
  sizeof(ncclEncryptionConfig_t), /* size */ \
  NCCL_API_MAGIC, /* magic */ \
  NCCL_VERSION_CODE, /* version */ \
  NCCL_ENCRYPTION_MODE_NONE, /* mode */ \
  NCCL_CONFIG_UNDEF_PTR, /* psk */ \
}

/* Ranks a fixed stride apart, seen from one of them. */
typedef struct ncclTeam {
  int nRanks; /* How many. */
  int rank; /* Which of them the caller is. */
  int stride; /* Distance between neighbours, in ranks of the communicator. */
} ncclTeam_t;

/* A multicast mapping. */
typedef struct ncclMultimemHandle {
  void *mcBasePtr; /* Its first byte. */
} ncclMultimemHandle_t;

/* What a communicator can do. Start from NCCL_COMM_PROPERTIES_INITIALIZER. */
typedef struct ncclCommProperties {
  size_t size; /* Bytes of the struct the caller was compiled with. */
  unsigned int magic; /* NCCL_API_MAGIC. */
  unsigned int version; /* NCCL_VERSION_CODE the caller was compiled with. */
  int rank; /* The caller's rank. */
  int nRanks; /* Ranks in the communicator. */
  int cudaDev; /* CUDA device index. */
  int nvmlDev; /* NVML device index. */
  bool deviceApiSupport; /* Whether device communicators can be created. */
  bool multimemSupport; /* Whether ranks sharing memory can use multicast. */
  ncclGinType_t ginType; /* Device-initiated networking between all ranks. */
  int nLsaTeams; /* Teams of ranks that share memory. */
  bool hostRmaSupport; /* Whether the host can start one-sided operations. */
  ncclGinType_t railedGinType; /* Device-initiated networking within a rail. */
  uint64_t commHash; /* The same number on every rank. */
  int ginMinStride; /* Smallest stride for custom connections. */
  ncclGinConnectionType_t ginConnectionType; /* Connections that can be asked for. */
  bool ginSupport[64]; /* Indexed by ncclGinType_t. */
  size_t devCommRuntimeVersionSize; /* Bytes of a device communicator of the running library. */
  bool cftSupport; /* Whether logical endpoints are there. */
  bool cftMulticastSupport; /* Whether they can multicast. */
  bool cftCountedSupport; /* Whether they can count. */
} ncclCommProperties_t;
#define NCCL_COMM_PROPERTIES_INITIALIZER { \
  sizeof(ncclCommProperties_t), /* size */ \
  NCCL_API_MAGIC, /* magic */ \
  NCCL_VERSION_CODE, /* version */ \
}

/* ---- Library ---- */

/* Writes the version as one number, 23203 for 2.32.3. Since 2.0. */
ncclResult_t ncclGetVersion(int *version);
ncclResult_t pncclGetVersion(int *version);

/* A sentence for a result code; never NULL. Since 2.0. */
const char *ncclGetErrorString(ncclResult_t result);
const char *pncclGetErrorString(ncclResult_t result);

/* The last failure's sentence; comm may be NULL. Since 2.13. */
const char *ncclGetLastError(ncclComm_t comm);
const char *pncclGetLastError(ncclComm_t comm);

/* Reads the logging settings again. Since 2.24. */
void ncclResetDebugInit(void);
void pncclResetDebugInit(void);

/* As ncclResetDebugInit, which calls it; exported, in no header, without a twin. Since 2.24. */
void ncclResetDebugInitInternal(void);

/* Sets how the library's own sockets are protected. Since 2.32. */
ncclResult_t ncclSetEncryption(const ncclEncryptionConfig_t *config);
ncclResult_t pncclSetEncryption(const ncclEncryptionConfig_t *config);

/* ---- Communicators ---- */

/* Makes the bytes by which the ranks of one communicator find each other. Since 2.0. */
ncclResult_t ncclGetUniqueId(ncclUniqueId *unique_id);
ncclResult_t pncclGetUniqueId(ncclUniqueId *unique_id);

/* Joins a communicator as rank of nranks. Since 2.0. */
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId comm_id, int rank);
ncclResult_t pncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId comm_id, int rank);

/* As ncclCommInitRank, with settings. Since 2.14. */
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId comm_id, int rank,
    ncclConfig_t *config);
ncclResult_t pncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId comm_id, int rank,
    ncclConfig_t *config);

/* As ncclCommInitRankConfig, with several ids to spread the meeting over. Since 2.23. */
ncclResult_t ncclCommInitRankScalable(ncclComm_t *newcomm, int nranks, int myrank, int n_id,
    ncclUniqueId *comm_ids, ncclConfig_t *config);
ncclResult_t pncclCommInitRankScalable(ncclComm_t *newcomm, int nranks, int myrank, int n_id,
    ncclUniqueId *comm_ids, ncclConfig_t *config);

/* Makes all communicators of one process, one per device. Since 2.0. */
ncclResult_t ncclCommInitAll(ncclComm_t *comms, int ndev, const int *devlist);
ncclResult_t pncclCommInitAll(ncclComm_t *comms, int ndev, const int *devlist);

/* Makes one communicator per colour, ranks ordered by key. Since 2.18. */
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config);
ncclResult_t pncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config);

/* Makes a communicator without the listed ranks. Since 2.27. */
ncclResult_t ncclCommShrink(ncclComm_t comm, int *exclude_ranks_list, int exclude_ranks_count,
    ncclComm_t *newcomm, ncclConfig_t *config, int shrink_flags);
ncclResult_t pncclCommShrink(ncclComm_t comm, int *exclude_ranks_list, int exclude_ranks_count,
    ncclComm_t *newcomm, ncclConfig_t *config, int shrink_flags);

/* Makes the id by which new ranks join ncclCommGrow. Since 2.29. */
ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *unique_id);
ncclResult_t pncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *unique_id);

/* Makes a communicator with more ranks; old ranks pass -1, new ones a NULL comm. Since 2.29. */
ncclResult_t ncclCommGrow(ncclComm_t comm, int n_ranks, const ncclUniqueId *unique_id, int rank,
    ncclComm_t *newcomm, ncclConfig_t *config);
ncclResult_t pncclCommGrow(ncclComm_t comm, int n_ranks, const ncclUniqueId *unique_id, int rank,
    ncclComm_t *newcomm, ncclConfig_t *config);

/* Ends the use of a communicator; local, never waits for peers. Since 2.14. */
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t pncclCommFinalize(ncclComm_t comm);

/* Stops what is in flight and keeps the communicator for split, shrink and destroy. Since 2.29. */
ncclResult_t ncclCommRevoke(ncclComm_t comm, int revoke_flags);
ncclResult_t pncclCommRevoke(ncclComm_t comm, int revoke_flags);

/* Frees a communicator. Since 2.0. */
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t pncclCommDestroy(ncclComm_t comm);

/* Stops what is in flight and frees the communicator. Since 2.4. */
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t pncclCommAbort(ncclComm_t comm);

/* How asynchronous work ended, or that it goes on. Since 2.4. */
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *async_error);
ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *async_error);

/* Ranks in the communicator. Since 2.0. */
ncclResult_t ncclCommCount(ncclComm_t comm, int *count);
ncclResult_t pncclCommCount(ncclComm_t comm, int *count);

/* The communicator's CUDA device. Since 2.0. */
ncclResult_t ncclCommCuDevice(ncclComm_t comm, int *device);
ncclResult_t pncclCommCuDevice(ncclComm_t comm, int *device);

/* The caller's rank. Since 2.0. */
ncclResult_t ncclCommUserRank(ncclComm_t comm, int *rank);
ncclResult_t pncclCommUserRank(ncclComm_t comm, int *rank);

/* Gives device memory back until ncclCommResume. Since 2.29. */
ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags);
ncclResult_t pncclCommSuspend(ncclComm_t comm, int flags);

/* Takes back what ncclCommSuspend gave away. Since 2.29. */
ncclResult_t ncclCommResume(ncclComm_t comm);
ncclResult_t pncclCommResume(ncclComm_t comm);

/* Bytes of device memory of one kind. Since 2.29. */
ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value);
ncclResult_t pncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value);

/* What the communicator can do. Since 2.29. */
ncclResult_t ncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t *props);
ncclResult_t pncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t *props);

/* ---- Memory ---- */

/* Allocates device memory that NCCL can register. Since 2.19. */
ncclResult_t ncclMemAlloc(void **ptr, size_t size);
ncclResult_t pncclMemAlloc(void **ptr, size_t size);

/* Frees memory of ncclMemAlloc. Since 2.19. */
ncclResult_t ncclMemFree(void *ptr);
ncclResult_t pncclMemFree(void *ptr);

/* Registers a buffer for zero-copy use. Since 2.19. */
ncclResult_t ncclCommRegister(ncclComm_t comm, void *buff, size_t size, void **handle);
ncclResult_t pncclCommRegister(ncclComm_t comm, void *buff, size_t size, void **handle);

/* Forgets a registered buffer. Since 2.19. */
ncclResult_t ncclCommDeregister(ncclComm_t comm, void *handle);
ncclResult_t pncclCommDeregister(ncclComm_t comm, void *handle);

/* Registers a window; collective. NULL where symmetric memory is not there. Since 2.27. */
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win,
    int win_flags);
ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win,
    int win_flags);

/* Forgets a window; collective. Since 2.27. */
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win);
ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win);

/* The buffer behind a window. Since 2.29. */
ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void **out_user_ptr);
ncclResult_t pncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void **out_user_ptr);

/* ---- Reduction operators ---- */

/* Makes an operator that multiplies by a scalar before it sums. Since 2.11. */
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
    ncclScalarResidence_t residence, ncclComm_t comm);
ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
    ncclScalarResidence_t residence, ncclComm_t comm);

/* Forgets an operator. Since 2.11. */
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);
ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);

/* ---- Collectives ---- */

/* Every rank receives the reduction of all contributions. Since 2.0. */
ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
    ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclAllReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
    ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);

/* The root receives the reduction of all contributions. Since 2.0. */
ncclResult_t ncclReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
    ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
    ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);

/* Every rank receives the root's buffer. Since 2.2. */
ncclResult_t ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
    int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclBroadcast(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
    int root, ncclComm_t comm, cudaStream_t stream);

/* ncclBroadcast in place. Since 2.0. */
ncclResult_t ncclBcast(void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
    cudaStream_t stream);
ncclResult_t pncclBcast(void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
    cudaStream_t stream);

/* Every rank receives all contributions, in rank order. Since 2.0. */
ncclResult_t ncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype,
    ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype,
    ncclComm_t comm, cudaStream_t stream);

/* Rank r receives block r of the reduction. Since 2.0. */
ncclResult_t ncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount,
    ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount,
    ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);

/* Rank r's block s becomes rank s's block r. Since 2.28. */
ncclResult_t ncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
    ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
    ncclComm_t comm, cudaStream_t stream);

/* The root receives all contributions, in rank order. Since 2.28. */
ncclResult_t ncclGather(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
    ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclGather(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
    int root, ncclComm_t comm, cudaStream_t stream);

/* Rank r receives the root's block r. Since 2.28. */
ncclResult_t ncclScatter(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
    int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclScatter(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
    int root, ncclComm_t comm, cudaStream_t stream);

/* ncclAllReduce with settings of its own; NULL means none. Since 2.32. */
ncclResult_t ncclAllReduceConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
    ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config);
ncclResult_t pncclAllReduceConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
    ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config);

/* ncclReduce with settings of its own; NULL means none. Since 2.32. */
ncclResult_t ncclReduceConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
    ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config);
ncclResult_t pncclReduceConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
    ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config);

/* ncclBroadcast with settings of its own; NULL means none. Since 2.32. */
ncclResult_t ncclBroadcastConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
    int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config);
ncclResult_t pncclBroadcastConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
    int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config);

/* ncclAllGather with settings of its own; NULL means none. Since 2.32. */
ncclResult_t ncclAllGatherConfig(const void *sendbuff, void *recvbuff, size_t sendcount,
    ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config);
ncclResult_t pncclAllGatherConfig(const void *sendbuff, void *recvbuff, size_t sendcount,
    ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config);

/* ncclReduceScatter with settings of its own; NULL means none. Since 2.32. */
ncclResult_t ncclReduceScatterConfig(const void *sendbuff, void *recvbuff, size_t recvcount,
    ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
    const ncclCollConfig_t *config);
ncclResult_t pncclReduceScatterConfig(const void *sendbuff, void *recvbuff, size_t recvcount,
    ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
    const ncclCollConfig_t *config);

/* ncclAlltoAll with settings of its own; NULL means none. Since 2.32. */
ncclResult_t ncclAlltoAllConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
    ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config);
ncclResult_t pncclAlltoAllConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
    ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config);

/* ncclGather with settings of its own; NULL means none. Since 2.32. */
ncclResult_t ncclGatherConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
    int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config);
ncclResult_t pncclGatherConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
    int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config);

/* ncclScatter with settings of its own; NULL means none. Since 2.32. */
ncclResult_t ncclScatterConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
    int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config);
ncclResult_t pncclScatterConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
    int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config);

/* ---- Point to point and one-sided ---- */

/* Sends to a peer that receives. Since 2.7. */
ncclResult_t ncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
    cudaStream_t stream);
ncclResult_t pncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
    cudaStream_t stream);

/* Receives from a peer that sends. Since 2.7. */
ncclResult_t ncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
    cudaStream_t stream);
ncclResult_t pncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
    cudaStream_t stream);

/* Writes into a peer's window, then signals it. Since 2.29. */
ncclResult_t ncclPutSignal(const void *localbuff, size_t count, ncclDataType_t datatype, int peer,
    ncclWindow_t peer_win, size_t peer_win_offset, int sig_idx, int ctx, unsigned int flags, ncclComm_t comm,
    cudaStream_t stream);
ncclResult_t pncclPutSignal(const void *localbuff, size_t count, ncclDataType_t datatype, int peer,
    ncclWindow_t peer_win, size_t peer_win_offset, int sig_idx, int ctx, unsigned int flags, ncclComm_t comm,
    cudaStream_t stream);

/* Signals a peer. Since 2.29. */
ncclResult_t ncclSignal(int peer, int sig_idx, int ctx, unsigned int flags, ncclComm_t comm,
    cudaStream_t stream);
ncclResult_t pncclSignal(int peer, int sig_idx, int ctx, unsigned int flags, ncclComm_t comm,
    cudaStream_t stream);

/* Waits for signals of peers. Since 2.29. */
ncclResult_t ncclWaitSignal(int n_desc, ncclWaitSignalDesc_t *signal_descs, ncclComm_t comm,
    cudaStream_t stream);
ncclResult_t pncclWaitSignal(int n_desc, ncclWaitSignalDesc_t *signal_descs, ncclComm_t comm,
    cudaStream_t stream);

/* ---- Groups ---- */

/* Calls up to ncclGroupEnd become one. Since 2.0. */
ncclResult_t ncclGroupStart(void);
ncclResult_t pncclGroupStart(void);

/* Starts the calls of the group. Since 2.0. */
ncclResult_t ncclGroupEnd(void);
ncclResult_t pncclGroupEnd(void);

/* Estimates the group's time instead of starting it. Since 2.22. */
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *sim_info);
ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t *sim_info);

/* ---- Runtime parameters ---- */

/* Looks a runtime parameter up. Since 2.30. */
ncclResult_t ncclParamBind(ncclParamHandle_t *out, const char *key);
ncclResult_t pncclParamBind(ncclParamHandle_t *out, const char *key);

/* Reads a parameter as a signed 8-bit number. Since 2.30. */
ncclResult_t ncclParamGetI8(ncclParamHandle_t h, int8_t *out);
ncclResult_t pncclParamGetI8(ncclParamHandle_t h, int8_t *out);

/* Reads a parameter as a signed 16-bit number. Since 2.30. */
ncclResult_t ncclParamGetI16(ncclParamHandle_t h, int16_t *out);
ncclResult_t pncclParamGetI16(ncclParamHandle_t h, int16_t *out);

/* Reads a parameter as a signed 32-bit number. Since 2.30. */
ncclResult_t ncclParamGetI32(ncclParamHandle_t h, int32_t *out);
ncclResult_t pncclParamGetI32(ncclParamHandle_t h, int32_t *out);

/* Reads a parameter as a signed 64-bit number. Since 2.30. */
ncclResult_t ncclParamGetI64(ncclParamHandle_t h, int64_t *out);
ncclResult_t pncclParamGetI64(ncclParamHandle_t h, int64_t *out);

/* Reads a parameter as an unsigned 8-bit number. Since 2.30. */
ncclResult_t ncclParamGetU8(ncclParamHandle_t h, uint8_t *out);
ncclResult_t pncclParamGetU8(ncclParamHandle_t h, uint8_t *out);

/* Reads a parameter as an unsigned 16-bit number. Since 2.30. */
ncclResult_t ncclParamGetU16(ncclParamHandle_t h, uint16_t *out);
ncclResult_t pncclParamGetU16(ncclParamHandle_t h, uint16_t *out);

/* Reads a parameter as an unsigned 32-bit number. Since 2.30. */
ncclResult_t ncclParamGetU32(ncclParamHandle_t h, uint32_t *out);
ncclResult_t pncclParamGetU32(ncclParamHandle_t h, uint32_t *out);

/* Reads a parameter as an unsigned 64-bit number. Since 2.30. */
ncclResult_t ncclParamGetU64(ncclParamHandle_t h, uint64_t *out);
ncclResult_t pncclParamGetU64(ncclParamHandle_t h, uint64_t *out);

/* Reads a parameter as text, valid until the thread's next call. Since 2.30. */
ncclResult_t ncclParamGetStr(ncclParamHandle_t h, const char **out);
ncclResult_t pncclParamGetStr(ncclParamHandle_t h, const char **out);

/* Copies a parameter's bytes. Since 2.30. */
ncclResult_t ncclParamGet(ncclParamHandle_t h, void *out, int max_len, int *len);
ncclResult_t pncclParamGet(ncclParamHandle_t h, void *out, int max_len, int *len);

/* Reads a parameter by name as text. Since 2.30. */
ncclResult_t ncclParamGetParameter(const char *key, const char **value, int *value_len);
ncclResult_t pncclParamGetParameter(const char *key, const char **value, int *value_len);

/* Every parameter's name. Since 2.30. */
ncclResult_t ncclParamGetAllParameterKeys(const char ***table, int *table_len);
ncclResult_t pncclParamGetAllParameterKeys(const char ***table, int *table_len);

/* Logs every parameter. Since 2.30. */
void ncclParamDumpAll(void);
void pncclParamDumpAll(void);

/* ---- Device API, host side ---- */

typedef uint32_t ncclCftLeId_t;
typedef struct ncclDevComm ncclDevComm_t;
typedef struct ncclDevCommRequirements ncclDevCommRequirements_t;
typedef struct ncclDevResourceRequirements ncclDevResourceRequirements_t;
typedef struct ncclLsaBarrierHandle ncclLsaBarrierHandle_t;
typedef struct ncclGinBarrierHandle ncclGinBarrierHandle_t;
typedef struct ncclGinOutboxHandle ncclGinOutboxHandle_t;
typedef struct ncclGinInboxA2AHandle ncclGinInboxA2AHandle_t;
typedef struct ncclLLA2AHandle ncclLLA2AHandle_t;

/* Makes a communicator for device code; collective. Since 2.28. */
ncclResult_t ncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements_t *reqs,
    ncclDevComm_t *out_dev_comm);
ncclResult_t pncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements_t *reqs,
    ncclDevComm_t *out_dev_comm);

/* Frees a communicator for device code. Since 2.28. */
ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const ncclDevComm_t *dev_comm);
ncclResult_t pncclDevCommDestroy(ncclComm_t comm, const ncclDevComm_t *dev_comm);

/* A window's multicast address among ranks that share memory. Since 2.29. */
ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void **out_ptr);
ncclResult_t pncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void **out_ptr);

/* A window's address in a given multicast mapping. Since 2.29. */
ncclResult_t ncclGetMultimemDevicePointer(ncclWindow_t window, size_t offset, ncclMultimemHandle_t multimem,
    void **out_ptr);
ncclResult_t pncclGetMultimemDevicePointer(ncclWindow_t window, size_t offset, ncclMultimemHandle_t multimem,
    void **out_ptr);

/* A window's address at a rank that shares memory. Since 2.29. */
ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int lsa_rank, void **out_ptr);
ncclResult_t pncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int lsa_rank, void **out_ptr);

/* A window's address at a rank of the communicator, NULL if out of reach. Since 2.29. */
ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer, void **out_ptr);
ncclResult_t pncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer, void **out_ptr);

/* A window's multicast endpoint. Since 2.31. */
ncclResult_t ncclGetMultimemDeviceLeInfo(ncclWindow_t window, size_t offset, ncclCftLeId_t *le_id,
    size_t *le_offset);
ncclResult_t pncclGetMultimemDeviceLeInfo(ncclWindow_t window, size_t offset, ncclCftLeId_t *le_id,
    size_t *le_offset);

/* A window's endpoint at a rank of a team. Since 2.31. */
ncclResult_t ncclGetCftDeviceLeInfo(ncclWindow_t window, size_t offset, int peer_cft, ncclTeam_t cft_team,
    ncclCftLeId_t *le_id, size_t *le_offset);
ncclResult_t pncclGetCftDeviceLeInfo(ncclWindow_t window, size_t offset, int peer_cft, ncclTeam_t cft_team,
    ncclCftLeId_t *le_id, size_t *le_offset);

/* A window's endpoint at a rank of the communicator. Since 2.31. */
ncclResult_t ncclGetPeerDeviceLeInfo(ncclWindow_t window, size_t offset, int peer_world, ncclCftLeId_t *le_id,
    size_t *le_offset);
ncclResult_t pncclGetPeerDeviceLeInfo(ncclWindow_t window, size_t offset, int peer_world,
    ncclCftLeId_t *le_id, size_t *le_offset);

/* All ranks. Since 2.28. */
ncclTeam_t ncclTeamWorld(ncclComm_t comm);
ncclTeam_t pncclTeamWorld(ncclComm_t comm);

/* The ranks that share memory with the caller. Since 2.28. */
ncclTeam_t ncclTeamLsa(ncclComm_t comm);
ncclTeam_t pncclTeamLsa(ncclComm_t comm);

/* The ranks at the caller's place in each shared-memory team. Since 2.28. */
ncclTeam_t ncclTeamRail(ncclComm_t comm);
ncclTeam_t pncclTeamRail(ncclComm_t comm);

/* The ranks reachable by logical endpoints. Since 2.31. */
ncclTeam_t ncclTeamCft(ncclComm_t comm, ncclCftTeamMode_t mode);
ncclTeam_t pncclTeamCft(ncclComm_t comm, ncclCftTeamMode_t mode);

/* The ranks reachable by multicast endpoints. Since 2.31. */
ncclTeam_t ncclTeamCftMultimem(ncclComm_t comm);
ncclTeam_t pncclTeamCftMultimem(ncclComm_t comm);

/* A team's rank as one of the communicator. Since 2.28. */
int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank);
int pncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank);

/* A team's rank as one of the shared-memory team. Since 2.28. */
int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank);
int pncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank);

/* What barriers among ranks that share memory need. Since 2.28. */
ncclResult_t ncclLsaBarrierCreateRequirement(ncclTeam_t team, int n_barriers,
    ncclLsaBarrierHandle_t *out_handle, ncclDevResourceRequirements_t *out_req);
ncclResult_t pncclLsaBarrierCreateRequirement(ncclTeam_t team, int n_barriers,
    ncclLsaBarrierHandle_t *out_handle, ncclDevResourceRequirements_t *out_req);

/* What barriers over the network need. Since 2.28. */
ncclResult_t ncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam_t team, int n_barriers,
    ncclGinBarrierHandle_t *out_handle, ncclDevResourceRequirements_t *out_req);
ncclResult_t pncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam_t team, int n_barriers,
    ncclGinBarrierHandle_t *out_handle, ncclDevResourceRequirements_t *out_req);

/* What an outbox needs; exported, in no Linux header. Since 2.28. */
ncclResult_t ncclGinOutboxCreateRequirement(int n_blocks, int size_log2, ncclGinOutboxHandle_t *out_handle,
    ncclDevResourceRequirements_t *out_req);
ncclResult_t pncclGinOutboxCreateRequirement(int n_blocks, int size_log2, ncclGinOutboxHandle_t *out_handle,
    ncclDevResourceRequirements_t *out_req);

/* What an all-to-all inbox needs; exported, in no Linux header. Since 2.28. */
ncclResult_t ncclGinInboxA2ACreateRequirement(ncclTeam_t peers, int n_blocks, int size_log2,
    ncclGinInboxA2AHandle_t *out_handle, ncclDevResourceRequirements_t *out_req);
ncclResult_t pncclGinInboxA2ACreateRequirement(ncclTeam_t peers, int n_blocks, int size_log2,
    ncclGinInboxA2AHandle_t *out_handle, ncclDevResourceRequirements_t *out_req);

/* Slots a low-latency all-to-all needs. Since 2.28. */
int ncclLLA2ACalcSlots(int max_elts, int max_elt_size);
int pncclLLA2ACalcSlots(int max_elts, int max_elt_size);

/* What a low-latency all-to-all needs. Since 2.28. */
ncclResult_t ncclLLA2ACreateRequirement(int n_blocks, int n_slots, ncclLLA2AHandle_t *out_handle,
    ncclDevResourceRequirements_t *out_req);
ncclResult_t pncclLLA2ACreateRequirement(int n_blocks, int n_slots, ncclLLA2AHandle_t *out_handle,
    ncclDevResourceRequirements_t *out_req);

#ifdef __cplusplus
}
#endif

#endif /* NCCL_H_ */
