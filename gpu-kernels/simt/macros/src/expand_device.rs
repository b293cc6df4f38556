//! The nvptx64 side: one entry point per variant, and a marker that tells the image builder its
//! launch bounds.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use crate::model::Kernel;
use crate::source::Written;

pub(crate) fn expand(kernel: &Kernel) -> TokenStream {
    let Kernel {
        name,
        cfgs,
        allows,
        params,
        arch,
        ..
    } = kernel;
    let launch_bounds = kernel.launch_bounds();
    let idents: Vec<&Ident> = params.iter().map(|param| &param.ident).collect();
    let types: Vec<&Written> = params.iter().map(|param| &param.ty).collect();
    // Instructions of one architecture only compile for it.
    let gate = arch.name.as_ref().map(|arch| {
        let cfg = format_ident!("simt_{arch}");
        quote!(#[cfg(#cfg)])
    });
    let entries = kernel.variants.iter().map(|variant| {
        let entry = format_ident!("{}", variant.entry);
        // A look at one variant's machine code does not wait for all the others: codegen sets
        // `simt_only`, and beside it `simt_only = "<entry>"`.
        let only = entry.to_string();
        let gate = quote!(#gate #[cfg(any(not(simt_only), simt_only = #only))]);
        let arguments = arguments(kernel, &variant.values);
        let marker = format!("// @kernel {entry} maxntid={{}} minctas={{}} shared={{}}");
        quote! {
            #gate
            #[unsafe(no_mangle)]
            unsafe extern "ptx-kernel" fn #entry(#(#idents: #types),*) {
                super::#name #arguments (#(#idents),*);
            }

            #gate
            ::core::arch::global_asm!(
                #marker,
                const __launch_bounds #arguments().0,
                const __launch_bounds #arguments().1,
                const __launch_bounds #arguments().2,
            );
        }
    });
    // A module, because `global_asm!` stands in no block; with the host's name, so that types
    // resolve as they do there.
    quote! {
        #(#cfgs)*
        #[cfg(target_arch = "nvptx64")]
        #(#allows)*
        #[allow(
            non_snake_case, dead_code, deprecated, unexpected_cfgs, unused_imports,
            clippy::wildcard_imports, clippy::too_many_arguments,
        )]
        mod #name {
            use super::*;

            #launch_bounds
            #(#entries)*
        }
    }
}

/// `::<4, true>`, or nothing.
pub(crate) fn arguments(kernel: &Kernel, values: &[crate::model::Value]) -> TokenStream {
    if kernel.consts.is_empty() {
        return TokenStream::new();
    }
    let values = values.iter().map(|value| value.literal());
    quote!(::<#({ #values }),*>)
}
