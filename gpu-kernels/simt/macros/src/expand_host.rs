//! The host side: a module of the kernel's name with `Variant`, `KERNEL` and `launch`, and the
//! entry in the registry.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

use crate::expand_device::arguments;
use crate::model::{ConstGeneric, Kernel, Param, ParamKind, Variant};
use crate::parse::mentions;

pub(crate) fn expand(kernel: &Kernel) -> TokenStream {
    let Kernel {
        name,
        vis,
        cfgs,
        allows,
        ..
    } = kernel;
    let doc = format!(
        "Host side of the kernel [`{name}`](fn@{name}): its variants, its descriptor and its typed launch."
    );
    let variant = variant(kernel);
    let descriptor = descriptor(kernel);
    let host_entry = host_entry(kernel);
    let launch = launch(kernel);
    let launch_bounds = kernel.launch_bounds();
    quote! {
        #(#cfgs)*
        #[cfg(not(target_arch = "nvptx64"))]
        #[doc = #doc]
        #(#allows)*
        #[allow(
            dead_code, deprecated, unreachable_patterns, unreachable_pub, unused_imports, unused_variables, non_upper_case_globals,
            clippy::wildcard_imports, clippy::struct_excessive_bools, clippy::too_many_arguments, clippy::trivially_copy_pass_by_ref,
        )]
        #vis mod #name {
            use super::*;
            use ::simt::launch::{DeviceMut as _, DeviceRef as _};

            #variant
            #descriptor
            #launch
            #launch_bounds
            #host_entry
        }
    }
}

/// `struct Variant` and its methods.
fn variant(kernel: &Kernel) -> TokenStream {
    let Kernel {
        name,
        consts,
        variants,
        ..
    } = kernel;
    let none = format!("{name} (no such variant)");
    let doc = if consts.is_empty() {
        format!("The one variant of [`{name}`](fn@super::{name}).")
    } else {
        format!(
            "A variant of [`{name}`](fn@super::{name}): the values of its const generics. Those built are [`Self::ALL`]."
        )
    };
    let derives = quote!(#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]);
    let (structure, all) = if consts.is_empty() {
        (
            quote!(#derives #[doc = #doc] pub struct Variant;),
            quote!(Self),
        )
    } else {
        let fields = consts.iter().map(
            |ConstGeneric {
                 ident,
                 ty,
                 field,
                 values,
                 ..
             }| {
                let values = values
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(", ");
                let doc = format!("Value of `{ident}`, one of: {values}.");
                quote!(#[doc = #doc] pub #field: #ty)
            },
        );
        let all = variants.iter().map(|variant| {
            let pattern = fields_of(kernel, variant);
            quote!(Self { #pattern })
        });
        (
            quote!(#derives #[doc = #doc] pub struct Variant { #(#fields),* }),
            quote!(#(#all),*),
        )
    };
    quote! {
        #structure

        impl Variant {
            /// Every variant that is built, in the order of the values in the attribute.
            pub const ALL: &'static [Self] = &[#all];

            /// Name of the variant's entry point; of a variant outside [`Self::ALL`], words that
            /// say so.
            pub fn name(self) -> &'static str {
                match self.info() {
                    ::core::option::Option::Some(info) => info.name,
                    ::core::option::Option::None => #none,
                }
            }

            /// Descriptor of the variant; none outside [`Self::ALL`].
            pub fn info(self) -> ::core::option::Option<&'static ::simt::launch::VariantInfo> {
                let index = Self::ALL.iter().position(|variant| *variant == self)?;
                KERNEL.variants.get(index)
            }
        }

        impl ::simt::launch::KernelVariant for Variant {
            const ALL: &'static [Self] = Self::ALL;

            fn kernel() -> &'static ::simt::launch::Kernel {
                &KERNEL
            }
        }
    }
}

/// `per_thread: 4, signed: true`: fields of an expression or a pattern.
fn fields_of(kernel: &Kernel, variant: &Variant) -> TokenStream {
    let fields =
        kernel
            .consts
            .iter()
            .zip(&variant.values)
            .map(|(ConstGeneric { field, .. }, value)| {
                let value = value.literal();
                quote!(#field: #value)
            });
    quote!(#(#fields),*)
}

/// `static KERNEL` and its place in the registry.
fn descriptor(kernel: &Kernel) -> TokenStream {
    let Kernel {
        name,
        doc,
        params,
        variants,
        arch,
        consts,
        ..
    } = kernel;
    let text = syn::ext::IdentExt::unraw(name).to_string();
    let params = params.iter().map(|Param { ident, ty, kind }| {
        let name = syn::ext::IdentExt::unraw(ident).to_string();
        let kind = match kind {
            ParamKind::Global(element) => {
                let text = &element.text;
                quote!(Global { element: #text, size: ::core::mem::size_of::<#element>() })
            }
            ParamKind::GlobalMut(element) => {
                let text = &element.text;
                quote!(GlobalMut { element: #text, size: ::core::mem::size_of::<#element>() })
            }
            ParamKind::Scalar => {
                let text = &ty.text;
                quote!(Scalar { ty: #text, size: ::core::mem::size_of::<#ty>() })
            }
        };
        quote!(::simt::launch::Param { name: #name, kind: ::simt::launch::ParamKind::#kind })
    });
    let min_arch = Literal::u32_unsuffixed(arch.minimum);
    let arch_feature = match &arch.name {
        Some(name) if arch.is_specific() => quote!(::core::option::Option::Some(#name)),
        _ => quote!(::core::option::Option::None),
    };
    let infos = variants.iter().map(|variant| {
        let entry = &variant.entry;
        let constants =
            consts
                .iter()
                .zip(&variant.values)
                .map(|(ConstGeneric { ident, .. }, value)| {
                    let name = ident.to_string();
                    let value = crate::model::Value::Int(value.number()).literal();
                    quote!((#name, #value))
                });
        let arguments = arguments(kernel, &variant.values);
        quote! {
            ::simt::launch::VariantInfo {
                name: #entry,
                constants: &[#(#constants),*],
                block: __launch_bounds #arguments().0,
                min_blocks: __launch_bounds #arguments().1,
                shared_bytes: __launch_bounds #arguments().2,
                min_arch: #min_arch,
                arch_feature: #arch_feature,
                entry: __host_entry #arguments,
            }
        }
    });
    // Where the kernel stands, not where the attribute's expansion does.
    let line = quote_spanned!(name.span()=> ::core::line!());
    let file = quote_spanned!(name.span()=> ::core::file!());
    let of = format!("Descriptor of [`{name}`](fn@super::{name}): parameters and variants.");
    quote! {
        #[doc = #of]
        pub static KERNEL: ::simt::launch::Kernel = ::simt::launch::Kernel {
            name: #text,
            doc: #doc,
            params: &[#(#params),*],
            variants: &[#(#infos),*],
            file: #file,
            line: #line,
        };

        ::simt::macro_support::inventory::submit! { &KERNEL }
    }
}

/// The function behind `VariantInfo::entry`: arguments out of their bytes once, then one call per
/// thread.
fn host_entry(kernel: &Kernel) -> TokenStream {
    let Kernel { name, params, .. } = kernel;
    let (generics, forward) = (kernel.generics(), kernel.forward_generics());
    let hidden = Span::mixed_site();
    let (arguments, run) = (Ident::new("arguments", hidden), Ident::new("run", hidden));
    let idents: Vec<&Ident> = params.iter().map(|param| &param.ident).collect();
    let lets = params
        .iter()
        .enumerate()
        .map(|(index, Param { ident, ty, kind })| {
            // The type's span: a type that is no `Element` is marked where it stands.
            let value = match kind {
                ParamKind::Global(element) => {
                    quote_spanned!(ty.span()=> ::simt::launch::RawArg::global::<#element>(&#arguments[#index]))
                }
                ParamKind::GlobalMut(element) => {
                    quote_spanned!(ty.span()=> ::simt::launch::RawArg::global_mut::<#element>(&#arguments[#index]))
                }
                ParamKind::Scalar => {
                    quote_spanned!(ty.span()=> ::simt::launch::RawArg::scalar::<#ty>(&#arguments[#index]))
                }
            };
            quote!(let #ident: #ty = #value;)
        });
    quote! {
        fn __host_entry #generics(
            #arguments: &[::simt::launch::RawArg<'_>],
            #run: &mut dyn ::core::ops::FnMut(&(dyn ::core::ops::Fn() + ::core::marker::Sync)),
        ) {
            #(#lets)*
            #run(&|| super::#name #forward(#(#idents),*));
        }
    }
}

/// The typed launch, and the checks of `requires` before it.
fn launch(kernel: &Kernel) -> TokenStream {
    let Kernel { name, params, .. } = kernel;
    // Names that no parameter of the kernel can meet.
    let hidden = Span::mixed_site();
    let [queue, variant, grid, info, arguments] =
        ["queue", "variant", "grid", "info", "arguments"].map(|name| Ident::new(name, hidden));
    let signature = params.iter().map(|Param { ident, ty, kind }| match kind {
        ParamKind::Global(element) => {
            quote!(#ident: &(impl ::simt::launch::DeviceRef<#element> + ?::core::marker::Sized))
        }
        ParamKind::GlobalMut(element) => {
            quote!(#ident: &mut (impl ::simt::launch::DeviceMut<#element> + ?::core::marker::Sized))
        }
        ParamKind::Scalar => quote!(#ident: #ty),
    });
    let raws = params.iter().map(|Param { ident, ty, kind }| match kind {
        ParamKind::Global(_) => {
            quote!(::simt::launch::RawArg::Buffer(::simt::launch::DeviceRef::raw(#ident)))
        }
        ParamKind::GlobalMut(_) => {
            quote!(::simt::launch::RawArg::Buffer(::simt::launch::DeviceMut::raw_mut(#ident)))
        }
        ParamKind::Scalar => quote_spanned! {ty.span()=>
            ::simt::launch::RawArg::Scalar(::simt::macro_support::bytes(&#ident))
        },
    });
    let (requires, check) = if kernel.requires.is_empty() {
        Default::default()
    } else {
        requires(kernel, &variant, &grid, &info)
    };
    let doc = format!(
        "Launches a variant of [`{name}`](fn@super::{name}) on `queue`, over `grid` blocks of the variant's own size."
    );
    quote! {
        #[doc = #doc]
        ///
        /// # Errors
        ///
        /// `LaunchError::Refused` before anything runs: a variant outside `Variant::ALL`, a
        /// requirement of the kernel that does not hold (quoted), a grid or a buffer the queue
        /// cannot take. What the queue reports besides.
        pub fn launch(
            #queue: &(impl ::simt::launch::Queue + ?::core::marker::Sized),
            #variant: Variant,
            #grid: ::simt::launch::Grid,
            #(#signature),*
        ) -> ::core::result::Result<(), ::simt::launch::LaunchError> {
            let ::core::option::Option::Some(#info) = #variant.info() else {
                return ::core::result::Result::Err(::simt::macro_support::no_such_variant(&KERNEL, &#variant));
            };
            #check
            let #arguments = [#(#raws),*];
            ::simt::launch::Queue::launch(
                #queue,
                &::simt::launch::Launch { kernel: &KERNEL, variant: #info, grid: #grid, args: &#arguments },
            )
        }

        #requires
    }
}

/// `fn __requires`, generic as the kernel is, so that the conditions see its const generics; and
/// the call that picks it.
fn requires(
    kernel: &Kernel,
    variant: &Ident,
    grid: &Ident,
    info: &Ident,
) -> (TokenStream, TokenStream) {
    let Kernel { params, consts, .. } = kernel;
    let generics = kernel.generics();
    // The conditions may name the launch's grid; a parameter of that name hides it.
    let visible = Ident::new("grid", Span::call_site());
    let hides = params.iter().any(|param| param.ident == visible);
    let of = if hides { grid } else { &visible };
    let holds = Ident::new("holds", Span::mixed_site());
    let signature = params.iter().map(|Param { ident, ty, kind }| match kind {
        ParamKind::Global(element) | ParamKind::GlobalMut(element) => {
            quote!(#ident: &(impl ::simt::launch::DeviceRef<#element> + ?::core::marker::Sized))
        }
        ParamKind::Scalar => quote!(#ident: #ty),
    });
    let checks = kernel.requires.iter().map(|expr| {
        let text = &expr.text;
        let of_consts = consts.iter().filter(|constant| mentions(expr, &constant.ident)).map(|ConstGeneric { ident, .. }| {
            let name = ident.to_string();
            quote!((#name, ::core::option::Option::Some(::std::string::ToString::to_string(&#ident))))
        });
        let of_params = params.iter().filter(|param| mentions(expr, &param.ident)).map(|Param { ident, kind, .. }| match kind {
            ParamKind::Global(_) | ParamKind::GlobalMut(_) => {
                let name = format!("{ident}.len()");
                quote!((#name, ::core::option::Option::Some(::std::string::ToString::to_string(&#ident.len()))))
            }
            ParamKind::Scalar => {
                let name = ident.to_string();
                quote!((#name, (&::simt::macro_support::Show(&#ident)).show()))
            }
        });
        let of_grid = (!hides && mentions(expr, &visible)).then(|| {
            quote!(("grid", ::core::option::Option::Some(::std::string::ToString::to_string(&#visible))))
        });
        let values = of_consts.chain(of_params).chain(of_grid);
        quote! {
            let #holds: bool = #expr;
            if !#holds {
                return ::core::result::Result::Err(::simt::macro_support::requirement(#text, &[#(#values),*]));
            }
        }
    });
    let function = quote! {
        #[allow(clippy::all, clippy::pedantic, unused_parens, unused_variables)]
        fn __requires #generics(#of: ::simt::launch::Grid, #(#signature),*) -> ::core::result::Result<(), ::std::string::String> {
            use ::simt::macro_support::{ShowDebug as _, ShowNothing as _};
            #(#checks)*
            ::core::result::Result::Ok(())
        }
    };
    let passed: Vec<TokenStream> = params
        .iter()
        .map(|Param { ident, kind, .. }| match kind {
            ParamKind::GlobalMut(_) => quote!(&*#ident),
            ParamKind::Global(_) | ParamKind::Scalar => quote!(#ident),
        })
        .collect();
    let checked = if consts.is_empty() {
        quote!(__requires(#grid, #(#passed),*))
    } else {
        let arms = kernel.variants.iter().map(|variant| {
            let pattern = fields_of(kernel, variant);
            let arguments = arguments(kernel, &variant.values);
            quote!(Variant { #pattern } => __requires #arguments(#grid, #(#passed),*))
        });
        // `info` refused every other variant before.
        quote!(match #variant { #(#arms,)* _ => ::core::result::Result::Ok(()) })
    };
    let reason = Ident::new("reason", Span::mixed_site());
    let call = quote! {
        if let ::core::result::Result::Err(#reason) = #checked {
            return ::core::result::Result::Err(::simt::launch::LaunchError::Refused { kernel: #info.name, reason: #reason });
        }
    };
    (function, call)
}
