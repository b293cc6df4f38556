//! The `#[kernel]` attribute of crate `simt`, which re-exports it as `simt::kernel`.
//!
//! A kernel is a plain Rust function. The attribute multiplies its const generics out into variants and writes, beside the
//! function, what both builds need: for nvptx64 one entry point per variant and a marker with its launch bounds, for the host
//! a module of the function's name with the descriptor, the variants and a typed `launch`.
//!
//! ```ignore
//! /// c[i] = a[i] * b[i] * 2^-32 mod q, lane by lane.
//! #[kernel(block = 256, variants(PER_THREAD = [1, 4]), requires(n as usize <= c.len()))]
//! pub fn montgomery_mul<const PER_THREAD: usize>(
//!     a: Global<u32>, b: Global<u32>, c: GlobalMut<u32>, n: u32, q: Modulus,
//! ) {
//!     for i in grid::stride::<PER_THREAD>(n as usize) {
//!         c.write(i, q.mul(a.read(i), b.read(i)));
//!     }
//! }
//!
//! // on the host
//! let variant = montgomery_mul::Variant { per_thread: 4 };
//! montgomery_mul::launch(&stream, variant, Grid::x(132), &a, &b, &mut c, n, q)?;
//! ```
//!
//! # Keys
//!
//! | key | value | meaning |
//! | --- | --- | --- |
//! | `block` | expression, 1 to 1024 | threads of a block; must be given |
//! | `variants(C = [..], ..)` | integer or bool literals | the values of each const generic; all combinations are built |
//! | `when` | condition | keeps the combinations for which it holds; see below |
//! | `min_blocks` | expression, 1 to 32 | blocks that must fit one multiprocessor together (bounds the registers) |
//! | `shared` | expression, bytes | dynamic shared memory of a block |
//! | `arch` | `"sm_90a"` | the architecture whose instructions the kernel needs; absent: any from `sm_80` |
//! | `requires(.., ..)` | conditions | checked on the host by `launch`; one that fails refuses the launch and is quoted |
//!
//! `block`, `min_blocks` and `shared` are constant expressions and may name the const generics. `requires` may name the const
//! generics and the parameters; a buffer is a `DeviceRef` there, so its length is `a.len()`. It may also name `grid`, the `Grid`
//! of the launch, unless a parameter has that name: a kernel of one block per item can refuse a grid that leaves items out.
//! `when` is evaluated while the macro expands, over integers without a size limit: literals, const generics, `+ - * / % << >> & | ^`, comparisons, `&& || !`, casts.
//!
//! # Names
//!
//! The entry point of a variant is `<function>__<const>_<value>__<const>_<value>..`, consts in lower case in the order of the
//! function, `true` and `false` as `1` and `0`, a minus sign as `m`: `fold__log_n_10__signed_1`. The fields of `Variant` are the
//! const generics in lower case.
//!
//! # What a using crate needs
//!
//! A kernel stands at module level, not inside a function. For nvptx64 the crate enables `abi_ptx` and `asm_experimental_arch`.

mod eval;
mod expand_device;
mod expand_host;
mod model;
mod parse;
mod source;
#[cfg(test)]
mod tests;

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

/// Makes a function a kernel: variants, launch bounds, device entries, descriptor and typed launch. See the crate's page.
#[proc_macro_attribute]
pub fn kernel(
    attribute: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    expand(attribute.into(), &item.into()).into()
}

/// The whole expansion, on `proc_macro2` tokens so that tests can call it.
fn expand(attribute: TokenStream, item: &TokenStream) -> TokenStream {
    let function = match syn::parse2::<syn::ItemFn>(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            let error = syn::Error::new(
                error.span(),
                format!("`#[kernel]` goes on a function: {error}"),
            );
            let error = error.to_compile_error();
            return quote!(#error #item);
        }
    };
    match parse::kernel(attribute, &function) {
        Ok(kernel) => {
            let mut tokens = kernel.function.to_token_stream();
            tokens.extend(expand_device::expand(&kernel));
            tokens.extend(expand_host::expand(&kernel));
            tokens
        }
        // The function stays, so that one mistake in the attribute is not followed by errors about a missing name.
        Err(error) => {
            let error = error.to_compile_error();
            quote!(#error #function)
        }
    }
}
