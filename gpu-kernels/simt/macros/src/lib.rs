//! The `#[kernel]` attribute of crate `simt`, which re-exports it as `simt::kernel`.
//!
//! Parsing fills a small typed model, in which every mistake is found before a token is written;
//! two expansions read it. What they write refers to `::simt`, and where it needs more than the
//! public words, to `::simt::macro_support`.
//!
//! | module | holds |
//! | --- | --- |
//! | `parse` | tokens to model, and all errors |
//! | `eval` | expressions evaluated while the macro expands |
//! | `model` | a checked kernel, its variants multiplied out |
//! | `source` | what the user wrote, as text and inside the generated module |
//! | `expand_device` | entry points and markers for nvptx64 |
//! | `expand_host` | the module with `Variant`, `KERNEL` and `launch` |

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

/// Makes a function a kernel: variants, launch bounds, device entries, descriptor and typed launch.
///
/// A kernel is a plain Rust function. The attribute multiplies its const generics out into variants
/// and writes, beside the function, what both builds need: for nvptx64 one entry point per variant
/// and a marker with its launch bounds, for the host a module of the function's name with the
/// descriptor, the variants and a typed `launch`.
///
/// ```
/// use simt::launch::{DeviceMut, DeviceRef, Grid, LaunchError, Queue};
/// use simt::prelude::*;
///
/// /// c[i] = a[i] * factor mod 2^32.
/// #[kernel(block = 256, variants(PER_THREAD = [1, 4]), requires(n as usize <= a.len().min(c.len())))]
/// pub fn scale<const PER_THREAD: usize>(a: Global<u32>, c: GlobalMut<u32>, n: u32, factor: u32) {
///     for i in grid::stride::<PER_THREAD>(n as usize) {
///         c.write(i, a.read(i).wrapping_mul(factor));
///     }
/// }
///
/// // on the host
/// fn triple(queue: &impl Queue, a: &impl DeviceRef<u32>, c: &mut impl DeviceMut<u32>) -> Result<(), LaunchError> {
///     let n = a.len() as u32;
///     scale::launch(queue, scale::Variant { per_thread: 4 }, Grid::x(132), a, c, n, 3)
/// }
///
/// fn main() {
///     assert_eq!(scale::Variant::ALL.len(), 2);
///     assert_eq!(scale::Variant { per_thread: 4 }.name(), "scale__per_thread_4");
///     assert_eq!(scale::KERNEL.variants[0].block, 256);
/// }
/// ```
///
/// # Keys
///
/// | key | value | meaning |
/// | --- | --- | --- |
/// | `block` | expression, 1 to 1024 | threads of a block; must be given |
/// | `variants(C = [..], ..)` | integer or bool literals, or `name = literal` | the values of each const generic; all combinations are built |
/// | `when` | condition | keeps the combinations for which it holds; see below |
/// | `min_blocks` | expression, 1 to 32 | blocks that must fit one multiprocessor together (bounds the registers) |
/// | `shared` | expression, bytes | dynamic shared memory of a block |
/// | `arch` | `"sm_90a"` | the architecture whose instructions the kernel needs; absent: any from `sm_80` |
/// | `requires(.., ..)` | conditions | checked on the host by `launch`; one that fails refuses the launch and is quoted |
///
/// `block`, `min_blocks` and `shared` are constant expressions and may name the const generics.
/// `requires` may name the const generics and the parameters; a buffer is a `DeviceRef` there, so
/// its length is `a.len()`. They may also name `grid`, the `Grid` of the launch, unless a parameter
/// has that name: so a kernel of one block per item refuses a grid that leaves items out.
/// `when` is evaluated while the macro expands, over integers without a size limit: literals,
/// const generics, `+ - * / % << >> & | ^`, comparisons, `&& || !`, casts.
/// Device entries of a kernel with `arch = "sm_90a"` are compiled under `cfg(simt_sm_90a)` only.
///
/// # Names
///
/// The entry point of a variant is `<function>__<const>_<value>__<const>_<value>..`, consts in
/// lower case in the order of the function, `true` and `false` as `1` and `0`, a minus sign as `m`:
/// `fold__log_n_10__signed_1`. A value with a name of its own, `METHOD = [schoolbook = 0, ..]`, stands
/// there by that name alone: `mul__schoolbook`. The fields of `Variant` are the const generics in lower case.
///
/// # What a using crate needs
///
/// It depends on `simt` by that name. A kernel stands at module level, not inside a function: the
/// generated module looks for what the signature names in the module around it, so a parameter's
/// type is not called `Variant`. One kernel of a name in a program: the name is the entry point's.
/// For nvptx64 the crate enables `abi_ptx` and `asm_experimental_arch`.
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
        // The function stays, so that one mistake in the attribute is not followed by errors about
        // a missing name.
        Err(error) => {
            let error = error.to_compile_error();
            quote!(#error #function)
        }
    }
}
