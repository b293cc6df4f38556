//! A kernel as the expansion sees it: everything checked, every variant multiplied out.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{Attribute, ItemFn, Type, Visibility};

use crate::source::Written;

/// A checked kernel.
pub(crate) struct Kernel {
    /// The function as written, with the attributes that the macro adds.
    pub(crate) function: ItemFn,
    pub(crate) name: Ident,
    pub(crate) vis: Visibility,
    /// Doc comment, a line each, without the leading space.
    pub(crate) doc: String,
    /// `#[cfg]` attributes, which decide over the generated items too.
    pub(crate) cfgs: Vec<Attribute>,
    /// Lints the user allowed, which hold for the generated items too.
    pub(crate) allows: Vec<Attribute>,
    pub(crate) consts: Vec<ConstGeneric>,
    pub(crate) params: Vec<Param>,
    pub(crate) variants: Vec<Variant>,
    pub(crate) bounds: Bounds,
    pub(crate) arch: Arch,
    pub(crate) requires: Vec<Written>,
}

/// Launch bounds: expressions over the const generics.
pub(crate) struct Bounds {
    pub(crate) block: Written,
    pub(crate) min_blocks: Option<Written>,
    pub(crate) shared: Option<Written>,
}

/// The architecture a kernel is for.
pub(crate) struct Arch {
    /// 90 for `sm_90` and `sm_90a`.
    pub(crate) minimum: u32,
    /// The text as written, where the attribute has one.
    pub(crate) name: Option<String>,
}

impl Arch {
    /// Whether only this very architecture runs the kernel (`sm_90a`).
    pub(crate) fn is_specific(&self) -> bool {
        self.name
            .as_ref()
            .is_some_and(|name| name.ends_with(|last: char| last.is_ascii_alphabetic()))
    }
}

/// A const generic and the values it takes.
pub(crate) struct ConstGeneric {
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
    /// Its field in `Variant`.
    pub(crate) field: Ident,
    pub(crate) values: Vec<Value>,
    /// The name of each value, where it has one.
    pub(crate) labels: Vec<Option<String>>,
}

impl ConstGeneric {
    /// The name of a value, where it has one.
    pub(crate) fn label(&self, value: Value) -> Option<&str> {
        let index = self.values.iter().position(|&known| known == value)?;
        self.labels.get(index)?.as_deref()
    }
}

/// A parameter of the kernel.
pub(crate) struct Param {
    pub(crate) ident: Ident,
    pub(crate) ty: Written,
    pub(crate) kind: ParamKind,
}

/// What a parameter is on the host.
pub(crate) enum ParamKind {
    /// A buffer the kernel reads; its element.
    Global(Written),
    /// A buffer the kernel writes; its element.
    GlobalMut(Written),
    Scalar,
}

/// One combination of values.
pub(crate) struct Variant {
    /// In the order of the const generics.
    pub(crate) values: Vec<Value>,
    /// Name of the entry point.
    pub(crate) entry: String,
}

/// Value of a const generic, and of an expression over them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Int(i128),
    Bool(bool),
}

impl Value {
    /// How the value stands in an entry's name.
    pub(crate) fn in_name(self) -> String {
        match self {
            Value::Int(value) if value < 0 => format!("m{}", value.unsigned_abs()),
            Value::Int(value) => value.to_string(),
            Value::Bool(value) => u8::from(value).to_string(),
        }
    }

    /// The value as a literal, without a suffix.
    pub(crate) fn literal(self) -> TokenStream {
        match self {
            Value::Int(value) => {
                let digits = proc_macro2::Literal::u128_unsuffixed(value.unsigned_abs());
                if value < 0 {
                    quote!(-#digits)
                } else {
                    quote!(#digits)
                }
            }
            Value::Bool(value) => quote!(#value),
        }
    }

    /// The value as a descriptor holds it.
    pub(crate) fn number(self) -> i128 {
        match self {
            Value::Int(value) => value,
            Value::Bool(value) => i128::from(value),
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Int(value) => value.fmt(f),
            Value::Bool(value) => value.fmt(f),
        }
    }
}

impl Kernel {
    /// `<const A: usize, const B: bool>`, or nothing.
    pub(crate) fn generics(&self) -> TokenStream {
        if self.consts.is_empty() {
            return TokenStream::new();
        }
        let params = self
            .consts
            .iter()
            .map(|ConstGeneric { ident, ty, .. }| quote!(const #ident: #ty));
        quote!(<#(#params),*>)
    }

    /// `::<A, B>`, or nothing: hands the const generics of an enclosing function on.
    pub(crate) fn forward_generics(&self) -> TokenStream {
        if self.consts.is_empty() {
            return TokenStream::new();
        }
        let idents = self.consts.iter().map(|constant| &constant.ident);
        quote!(::<#(#idents),*>)
    }

    /// `fn __launch_bounds<..>() -> (u32, u32, u32)`: threads, blocks a multiprocessor, dynamic
    /// shared bytes.
    ///
    /// A const fn, so that the expressions see the const generics under their own names and types.
    /// What the macro could not evaluate itself (`block = THREADS`) is checked here, by the
    /// compiler.
    pub(crate) fn launch_bounds(&self) -> TokenStream {
        let generics = self.generics();
        let Bounds {
            block,
            min_blocks,
            shared,
        } = &self.bounds;
        let block = checked(block, "block", BLOCK_LIMITS);
        let min_blocks = min_blocks.as_ref().map_or(quote!(0), |expr| {
            checked(expr, "min_blocks", MIN_BLOCKS_LIMITS)
        });
        let shared = shared
            .as_ref()
            .map_or(quote!(0), |expr| checked(expr, "shared", SHARED_LIMITS));
        quote! {
            #[allow(clippy::all, clippy::pedantic, unused_parens, non_upper_case_globals)]
            const fn __launch_bounds #generics() -> (u32, u32, u32) {
                (#block, #min_blocks, #shared)
            }
        }
    }
}

/// What a bound may be, and the sentence that says so.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) min: i128,
    pub(crate) max: i128,
    pub(crate) says: &'static str,
}

pub(crate) const BLOCK_LIMITS: Limits = Limits {
    min: 1,
    max: 1024,
    says: "a block has 1 to 1024 threads",
};
pub(crate) const MIN_BLOCKS_LIMITS: Limits = Limits {
    min: 1,
    max: 32,
    says: "a multiprocessor holds 1 to 32 blocks; leave `min_blocks` out to set no bound",
};
/// 227 KiB, what compute capability 9.0 and 10.0 give a block, is the most that any architecture
/// gives.
pub(crate) const SHARED_LIMITS: Limits = Limits {
    min: 0,
    max: 232_448,
    says: "a block has at most 232448 bytes of dynamic shared memory (227 KiB)",
};

fn checked(expr: &Written, key: &str, limits: Limits) -> TokenStream {
    let Limits { min, max, says } = limits;
    let message = format!("`{key}` is out of range: {says}");
    let (min, max) = (Value::Int(min).literal(), Value::Int(max).literal());
    let span = syn::spanned::Spanned::span(expr);
    quote::quote_spanned! {span=> {
        let value = (#expr) as i128;
        ::core::assert!(#min <= value && value <= #max, #message);
        value as u32
    }}
}
