//! What `libcudart` is made of: one forwarder a row.

/// Expands [`runtime_table!`](crate::runtime_table) into the exported functions of the `libcudart` of one major version.
/// Each hands its arguments to the [`RuntimeTable`](crate::RuntimeTable) of the process.
///
/// ```text
/// fakegpu_cuda_abi::runtime_exports!(13);
/// ```
#[macro_export]
macro_rules! runtime_exports {
    (12) => {
        $crate::runtime_exports! { @client 12 }
        $crate::runtime_table!($crate::__exports_of_12);
    };
    (13) => {
        $crate::runtime_exports! { @client 13 }
        $crate::runtime_table!($crate::__exports_of_13);
    };
    (@client $major:literal) => {
        use $crate::types::*;

        /// Where the answers come from.
        static CLIENT: $crate::client::Client = $crate::client::Client::new($major);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __exports_of_12 {
    ($( $section:ident { $(
        [$($exports:tt)+]
        fn $name:ident $(/ $twin:ident)? ($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;
    )* } )*) => {
        $($($crate::__export_of_12! { [$($exports)+] $name [$($twin)?] ($($arg: $ty),*) -> $ret })*)*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __exports_of_13 {
    ($( $section:ident { $(
        [$($exports:tt)+]
        fn $name:ident $(/ $twin:ident)? ($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;
    )* } )*) => {
        $($($crate::__export_of_13! { [$($exports)+] $name [$($twin)?] ($($arg: $ty),*) -> $ret })*)*
    };
}

/// Rows name 12 first, under the row's own name.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_of_12 {
    ([12 $($rest:tt)*] $name:ident [$($twin:ident)?] $params:tt -> $ret:ty) => {
        $crate::__forward! { $name $name $params -> $ret }
        $($crate::__forward! { $twin $twin $params -> $ret })?
    };
    ([13 $($rest:tt)*] $($row:tt)*) => {};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __export_of_13 {
    ([12, $($rest:tt)+] $($row:tt)*) => {
        $crate::__export_of_13! { [$($rest)+] $($row)* }
    };
    ([12] $($row:tt)*) => {};
    ([13] $name:ident [$($twin:ident)?] $params:tt -> $ret:ty) => {
        $crate::__forward! { $name $name $params -> $ret }
        $($crate::__forward! { $twin $twin $params -> $ret })?
    };
    ([13 as $symbol:ident $(/ $symbol_twin:ident)?] $name:ident [$($twin:ident)?] $params:tt -> $ret:ty) => {
        $crate::__forward! { $symbol $name $params -> $ret }
        $($crate::__forward! { $symbol_twin $twin $params -> $ret })?
    };
}

/// One exported function.
#[doc(hidden)]
#[macro_export]
macro_rules! __forward {
    ($symbol:ident $member:ident ($($arg:ident: $ty:ty),*) -> $ret:ty) => {
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments, non_snake_case, reason = "CUDA's signatures and names")]
        unsafe extern "C" fn $symbol($($arg: $ty),*) -> $ret {
            match CLIENT.table() {
                // SAFETY: the member has this signature; the arguments are the C caller's, handed on unchanged.
                Some(table) => unsafe { (table.$member)($($arg),*) },
                None => $crate::__without! { $symbol($($arg),*) },
            }
        }
    };
}

/// What a function answers where there is no driver of ours.
#[doc(hidden)]
#[macro_export]
macro_rules! __without {
    (cudaGetErrorString($code:ident)) => {
        $code.text().as_ptr()
    };
    (cudaGetErrorName($code:ident)) => {
        $code.name().as_ptr()
    };
    (cudaRuntimeGetVersion($version:ident)) => {
        // SAFETY: NULL or writable, as the C function requires.
        unsafe { CLIENT.write_runtime_version($version) }
    };
    (cudaDriverGetVersion($version:ident)) => {
        // SAFETY: NULL or writable, as the C function requires.
        unsafe { $crate::client::write_version($version, 0) }
    };
    (__cudaRegisterFatBinary($fat_cubin:ident)) => {{
        let _unused = $fat_cubin;
        $crate::Answer::refused(cudaError_t::cudaErrorInsufficientDriver)
    }};
    (__cudaInitModule($handle:ident)) => {{
        let _unused = $handle;
        0
    }};
    ($name:ident($($arg:ident),*)) => {{
        let _unused = ($($arg,)*);
        CLIENT.without_driver()
    }};
}
