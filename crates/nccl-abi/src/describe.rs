//! Declares a C type and, from the same lines, the description that the header and the layout tests read.

/// A named value of a C enum.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// The C enumerator.
    pub name: &'static str,
    /// Its value.
    pub value: i32,
    /// What it means, for the header.
    pub doc: &'static str,
}

/// A field of a C struct.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The C member.
    pub name: &'static str,
    /// Its type as written in Rust.
    pub ty: &'static str,
    /// Bytes from the start of the struct.
    pub offset: usize,
    /// Bytes it takes.
    pub size: usize,
    /// What it means, for the header.
    pub doc: &'static str,
}

/// A C struct as memory sees it.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The typedef.
    pub name: &'static str,
    /// The struct tag; differs from the typedef where NCCL puts a version into it.
    pub tag: &'static str,
    /// Bytes, trailing padding included.
    pub size: usize,
    /// Alignment in bytes.
    pub align: usize,
    /// Its members in order.
    pub fields: &'static [Field],
    /// What it is, for the header.
    pub doc: &'static str,
}

/// An open newtype over `int`: any value is valid, some have names.
macro_rules! c_enum {
    ($(#[doc = $doc:literal])* $name:ident {
        $($(#[doc = $value_doc:literal])* $value_name:ident = $value:expr),* $(,)?
    }) => {
        $(#[doc = $doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(pub c_int);

        impl $name {
            $($(#[doc = $value_doc])* pub const $value_name: Self = Self($value);)*

            /// Every named value, aliases included, in the header's order.
            pub const NAMED: &'static [Named] = &[$(Named {
                name: stringify!($value_name), value: $value, doc: concat!($($value_doc),*),
            }),*];
            /// What the enum is for.
            pub(crate) const DOC: &'static str = concat!($($doc),*);
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match Self::NAMED.iter().find(|named| named.value == self.0) {
                    Some(named) => f.write_str(named.name),
                    None => write!(f, concat!(stringify!($name), "({})"), self.0),
                }
            }
        }
    };
}

/// A `repr(C)` struct with its [`Layout`].
macro_rules! c_struct {
    ($(#[doc = $doc:literal])* $name:ident as $tag:ident {
        $($(#[doc = $field_doc:literal])* $field:ident: $ty:ty),* $(,)?
    }) => {
        $(#[doc = $doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct $name { $($(#[doc = $field_doc])* pub $field: $ty),* }

        impl $name {
            /// Size, alignment and members.
            pub const LAYOUT: Layout = Layout {
                name: stringify!($name),
                tag: stringify!($tag),
                size: size_of::<Self>(),
                align: align_of::<Self>(),
                fields: &[$(Field {
                    name: stringify!($field),
                    ty: stringify!($ty),
                    offset: offset_of!(Self, $field),
                    size: size_of::<$ty>(),
                    doc: concat!($($field_doc),*),
                }),*],
                doc: concat!($($doc),*),
            };
        }
    };
}

/// A type only NCCL sees into: callers hold pointers to it.
macro_rules! c_opaque {
    ($($(#[doc = $doc:literal])* $name:ident;)*) => { $(
        $(#[doc = $doc])*
        #[repr(C)]
        #[derive(Debug)]
        pub struct $name {
            _private: [u8; 0],
            _marker: PhantomData<(*mut u8, PhantomPinned)>,
        }
    )* };
}
