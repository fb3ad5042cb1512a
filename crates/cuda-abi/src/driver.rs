//! What stands behind the functions of the driver: a trait a section of [`driver_table!`](crate::driver_table), a method a
//! row. A twin has its row's method. A method that nobody overrides refuses.
#![expect(non_snake_case, reason = "methods carry the names of the C functions they stand for")]

use crate::answer::DriverAnswer;
use crate::driver_table;
use crate::types::*;

/// Who is told of calls that are not answered.
pub trait Refuse: Sync {
    /// Called for a row that is not overridden, with the C function's name. The code is returned to the caller.
    fn refuse(&self, call: &'static str) -> CUresult;
}

macro_rules! traits {
    ($( $section:ident { $(
        [$since:literal $(as $asked:ident)?]
        fn $name:ident $(/ $twin:ident)? ($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;
    )* } )*) => { $(
        #[doc = concat!("The functions of the section ", stringify!($section), ".")]
        pub trait $section: Refuse {
            $(
                #[doc = concat!("`", stringify!($name), "`.")]
                ///
                /// # Safety
                ///
                /// As for the C function: pointers are NULL or point to what the function reads or fills in.
                #[allow(clippy::too_many_arguments, unused_variables, reason = "CUDA's signatures, each different")]
                unsafe fn $name(&self, $($arg: $ty),*) -> $ret {
                    DriverAnswer::refused(self.refuse(stringify!($name)))
                }
            )*
        }
    )* };
}
driver_table!(traits);
