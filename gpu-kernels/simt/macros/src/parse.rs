//! From tokens to the model. Every mistake is an error at its own place that says what to write
//! instead, and as many mistakes as possible are reported in one go.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Error, Expr, ExprArray, FnArg, GenericArgument, GenericParam, ItemFn, Lit, LitStr,
    Meta, Pat, PathArguments, ReturnType, Safety, Signature, Token, Type, UnOp, parse_quote, token,
};

use crate::eval::{self, Fail};
use crate::model::{
    Arch, BLOCK_LIMITS, Bounds, ConstGeneric, Kernel, Limits, MIN_BLOCKS_LIMITS, Param, ParamKind,
    SHARED_LIMITS, Value, Variant,
};
use crate::source::Written;

/// More than this is a slip of the pen: each variant is compiled for each architecture.
const MAX_VARIANTS: usize = 1024;

const KEYS: &str = "`block`, `variants`, `when`, `min_blocks`, `shared`, `arch`, `requires`";

/// Collects errors, so that one build shows them all.
#[derive(Default)]
struct Errors(Option<Error>);

impl Errors {
    fn add(&mut self, error: Error) {
        match &mut self.0 {
            Some(first) => first.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// An error over all of `tokens`.
    fn at(&mut self, tokens: impl ToTokens, message: impl std::fmt::Display) {
        self.add(Error::new_spanned(tokens, message));
    }

    fn take<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }

    fn finish(self) -> Result<(), Error> {
        self.0.map_or(Ok(()), Err)
    }
}

/// Reads `#[kernel(attribute)] function` into the model.
pub(crate) fn kernel(attribute: TokenStream, function: &ItemFn) -> Result<Kernel, Error> {
    let mut errors = Errors::default();
    let options = options(attribute, &mut errors);
    check_signature(&function.sig, &mut errors);
    let mut consts = const_generics(&function.sig, &mut errors);
    let params = params(&function.sig, &consts, &mut errors);
    let attributes = attributes(function, &mut errors);
    let arch = arch(options.arch.as_ref(), &mut errors);
    fill_values(
        &mut consts,
        options.variants,
        &function.sig.ident,
        &mut errors,
    );
    // Variants and bounds are worth a look only where the consts are right.
    errors.finish()?;

    let mut errors = Errors::default();
    let variants = multiply_out(
        &function.sig.ident,
        &consts,
        options.when.as_ref(),
        &mut errors,
    );
    let Some(block) = options.block else {
        // Only a missing `block` leaves it empty once the first round passed.
        return Err(Error::new(Span::call_site(), MISSING_BLOCK));
    };
    let mut bound = |key: &str, expr: &Expr, limits: Limits| {
        check_bound(key, expr, limits, &consts, &variants, &mut errors);
        Written::new(expr)
    };
    let bounds = Bounds {
        block: bound("block", &block, BLOCK_LIMITS),
        min_blocks: options
            .min_blocks
            .map(|expr| bound("min_blocks", &expr, MIN_BLOCKS_LIMITS)),
        shared: options
            .shared
            .map(|expr| bound("shared", &expr, SHARED_LIMITS)),
    };
    errors.finish()?;

    let mut kept = function.clone();
    kept.attrs
        .push(parse_quote!(#[allow(clippy::too_many_arguments, clippy::inline_always)]));
    kept.attrs.push(parse_quote!(#[inline(always)]));
    if arch.name.is_some() {
        // In the pass for other architectures nothing calls it.
        kept.attrs
            .push(parse_quote!(#[cfg_attr(target_arch = "nvptx64", allow(dead_code))]));
    }
    Ok(Kernel {
        function: kept,
        name: function.sig.ident.clone(),
        vis: function.vis.clone(),
        doc: attributes.doc,
        cfgs: attributes.cfgs,
        allows: attributes.allows,
        consts,
        params,
        variants,
        bounds,
        arch,
        requires: options.requires.iter().map(Written::new).collect(),
    })
}

const MISSING_BLOCK: &str = "say how many threads a block has: `#[kernel(block = 256)]`";

/// The keys of the attribute, each at most once.
#[derive(Default)]
struct Options {
    block: Option<Expr>,
    variants: Vec<Axis>,
    when: Option<Expr>,
    min_blocks: Option<Expr>,
    shared: Option<Expr>,
    arch: Option<LitStr>,
    requires: Vec<Expr>,
}

/// `PER_THREAD = [1, 4]` of `variants(..)`.
struct Axis {
    name: Ident,
    /// What stands behind the `=`, if there is one.
    values: Option<Expr>,
}

impl Parse for Axis {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = input.parse()?;
        let values = if input.parse::<Option<Token![=]>>()?.is_some() {
            Some(input.parse()?)
        } else {
            None
        };
        Ok(Axis { name, values })
    }
}

fn options(attribute: TokenStream, errors: &mut Errors) -> Options {
    let mut options = Options::default();
    let mut seen: Vec<Ident> = Vec::new();
    let parsed = (|input: ParseStream<'_>| {
        while !input.is_empty() {
            let key = Ident::parse_any(input)?;
            if seen.contains(&key) {
                errors.at(&key, format!("`{key}` stands twice: keep one"));
            }
            option(&key, input, &mut options, errors)?;
            seen.push(key);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(())
    })
    .parse2(attribute);
    let complete = parsed.is_ok();
    errors.take(parsed);
    if complete && options.block.is_none() {
        errors.add(Error::new(Span::call_site(), MISSING_BLOCK));
    }
    options
}

/// Reads what follows `key`. An error returned ends the parsing of the attribute; one collected
/// does not.
fn option(
    key: &Ident,
    input: ParseStream<'_>,
    options: &mut Options,
    errors: &mut Errors,
) -> Result<(), Error> {
    match key.to_string().as_str() {
        "block" => options.block = Some(value(key, "256", input)?),
        "min_blocks" => options.min_blocks = Some(value(key, "2", input)?),
        "shared" => options.shared = Some(value(key, "4 << LOG_N", input)?),
        "when" => options.when = Some(value(key, "LOG_N >= 11 || RADIX == 8", input)?),
        "arch" => match value(key, "\"sm_90a\"", input)? {
            Expr::Lit(syn::ExprLit {
                lit: Lit::Str(text),
                ..
            }) => options.arch = Some(text),
            other => errors.at(&other, "`arch` takes a string: `arch = \"sm_90a\"`"),
        },
        "variants" => {
            let content = list(key, "(PER_THREAD = [1, 4])", input)?;
            options
                .variants
                .extend(Punctuated::<Axis, Token![,]>::parse_terminated(&content)?);
        }
        "requires" => {
            let content = list(key, "(n as usize <= a.len())", input)?;
            options
                .requires
                .extend(Punctuated::<Expr, Token![,]>::parse_terminated(&content)?);
        }
        _ => {
            errors.at(
                key,
                format!("`#[kernel]` has no key `{key}`; its keys are {KEYS}"),
            );
            // The value is skipped, so that what follows is looked at.
            if input.peek(Token![=]) {
                input.parse::<Token![=]>()?;
                input.parse::<Expr>()?;
            } else if input.peek(token::Paren) {
                input.parse::<proc_macro2::Group>()?;
            }
        }
    }
    Ok(())
}

fn value(key: &Ident, example: &str, input: ParseStream<'_>) -> Result<Expr, Error> {
    if !input.peek(Token![=]) {
        return Err(Error::new_spanned(
            key,
            format!("`{key}` takes a value: `{key} = {example}`"),
        ));
    }
    input.parse::<Token![=]>()?;
    if input.is_empty() || input.peek(Token![,]) {
        return Err(Error::new_spanned(
            key,
            format!("`{key}` takes a value: `{key} = {example}`"),
        ));
    }
    input.parse()
}

fn list<'a>(
    key: &Ident,
    example: &str,
    input: ParseStream<'a>,
) -> Result<syn::parse::ParseBuffer<'a>, Error> {
    if !input.peek(token::Paren) {
        return Err(Error::new_spanned(
            key,
            format!("`{key}` takes a list: `{key}{example}`"),
        ));
    }
    let content;
    syn::parenthesized!(content in input);
    Ok(content)
}

fn check_signature(signature: &Signature, errors: &mut Errors) {
    if let Some(token) = &signature.constness {
        errors.at(token, "a kernel is a plain `fn`: remove `const`");
    }
    if let Some(token) = &signature.asyncness {
        errors.at(token, "a kernel cannot be async: remove `async`");
    }
    match &signature.safety {
        Safety::Default => {}
        other => errors.at(
            other,
            "a kernel is a safe function: put what is unsafe into a block with a SAFETY comment",
        ),
    }
    if let Some(abi) = &signature.abi {
        errors.at(
            abi,
            "the macro writes the `extern` entry points itself: remove `extern` here",
        );
    }
    if let Some(variadic) = &signature.variadic {
        errors.at(
            variadic,
            "a kernel has a fixed number of parameters: remove `...`",
        );
    }
    if let ReturnType::Type(_, ty) = &signature.output {
        errors.at(
            ty,
            "a kernel returns nothing: write results through a `GlobalMut<T>` parameter",
        );
    }
    if let Some(clause) = &signature.generics.where_clause {
        errors.at(
            clause,
            "a kernel has no `where` clause: filter its variants with `when = ..`",
        );
    }
    for param in &signature.generics.params {
        match param {
            GenericParam::Const(_) => {}
            GenericParam::Type(param) => errors.at(param,
                format!("a kernel is generic over constants only: write `{}` out, one kernel for each type", param.ident),
            ),
            GenericParam::Lifetime(param) => {
                errors.at(param, "a kernel has no lifetimes: its buffers are `Global<T>` and `GlobalMut<T>`");
            }
        }
    }
}

fn const_generics(signature: &Signature, errors: &mut Errors) -> Vec<ConstGeneric> {
    let mut consts: Vec<ConstGeneric> = Vec::new();
    for param in &signature.generics.params {
        let GenericParam::Const(param) = param else {
            continue;
        };
        if let Some((_, default)) = &param.default {
            errors.at(
                default,
                format!(
                    "list the values instead: `variants({} = [..])`",
                    param.ident
                ),
            );
        }
        if !is_bool(&param.ty) && eval::integer_range(&param.ty).is_none() {
            errors.at(
                &param.ty,
                "a const generic of a kernel is a `bool` or an integer of at most 64 bits",
            );
        }
        let name = param.ident.unraw().to_string().to_lowercase();
        let field = match name.as_str() {
            "self" | "super" | "crate" | "_" => {
                errors.at(
                    &param.ident,
                    format!(
                        "`{name}` cannot be the name of a field of `Variant`: rename the constant"
                    ),
                );
                continue;
            }
            name if syn::parse_str::<Ident>(name).is_ok() => Ident::new(name, param.ident.span()),
            keyword => Ident::new_raw(keyword, param.ident.span()),
        };
        if consts.iter().any(|other| other.field == field) {
            errors.at(
                &param.ident,
                format!("two const generics are `{field}` in lower case: rename one"),
            );
        }
        consts.push(ConstGeneric {
            ident: param.ident.clone(),
            ty: param.ty.clone(),
            field,
            values: Vec::new(),
            labels: Vec::new(),
        });
    }
    consts
}

fn is_bool(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.is_ident("bool"))
}

/// Gives each const generic the values of its axis.
fn fill_values(consts: &mut [ConstGeneric], axes: Vec<Axis>, kernel: &Ident, errors: &mut Errors) {
    let mut named: Vec<Ident> = Vec::new();
    for Axis { name, values } in axes {
        let known = names(consts.iter().map(|constant| &constant.ident));
        let Some(constant) = consts.iter_mut().find(|constant| constant.ident == name) else {
            let message = if known.is_empty() {
                format!(
                    "`{kernel}` has no const generics: write `fn {kernel}<const {name}: usize>(..)`"
                )
            } else {
                format!("`{kernel}` has no const generic `{name}`; it has {known}")
            };
            errors.at(&name, message);
            continue;
        };
        if named.contains(&name) {
            errors.at(
                &name,
                format!("`{name}` stands twice in `variants`: put all its values into one list"),
            );
            continue;
        }
        named.push(name.clone());
        let exprs = match &values {
            Some(Expr::Array(ExprArray { elems, .. })) if !elems.is_empty() => elems,
            other => {
                let at = other
                    .as_ref()
                    .map_or(name.to_token_stream(), ToTokens::to_token_stream);
                errors.at(
                    at,
                    format!("give the values of `{name}` in brackets: `{name} = [1, 4]`"),
                );
                continue;
            }
        };
        for expr in exprs {
            let Some((label, expr)) = errors.take(label(expr)) else {
                continue;
            };
            let Some(value) = errors.take(literal(expr, constant)) else {
                continue;
            };
            if label.is_some() && constant.labels.contains(&label) {
                errors.at(expr, format!("two values of `{name}` have the same name"));
                continue;
            }
            if constant.values.contains(&value) {
                errors.at(
                    expr,
                    format!("{value} stands twice among the values of `{name}`"),
                );
            } else {
                constant.values.push(value);
                constant.labels.push(label);
            }
        }
    }
    for constant in consts
        .iter()
        .filter(|constant| !named.contains(&constant.ident))
    {
        let ConstGeneric { ident, ty, .. } = constant;
        let example = if is_bool(ty) {
            "[false, true]"
        } else {
            "[1, 4]"
        };
        errors.at(
            ident,
            format!(
                "`variants` gives no values for `{ident}`: add `variants({ident} = {example})`"
            ),
        );
    }
}

fn names<'a>(idents: impl Iterator<Item = &'a Ident>) -> String {
    idents
        .map(|ident| format!("`{ident}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The name that a value has in entry names, where it has one: `schoolbook = 0`.
fn label(expr: &Expr) -> Result<(Option<String>, &Expr), Error> {
    let Expr::Assign(assign) = expr else {
        return Ok((None, expr));
    };
    let name = match &*assign.left {
        Expr::Path(path) => path.path.get_ident(),
        _ => None,
    };
    let Some(name) = name.map(|ident| ident.unraw().to_string()) else {
        return Err(Error::new_spanned(
            &assign.left,
            "the name of a value is one word: `schoolbook = 0`",
        ));
    };
    if name.chars().any(|c| c.is_ascii_uppercase()) || name.contains("__") {
        return Err(Error::new_spanned(
            &assign.left,
            "write the name of a value in lower case and without `__`: it stands in entry names",
        ));
    }
    Ok((Some(name), &assign.right))
}

/// A value in `variants`: an integer or bool literal, with the type of its const generic.
fn literal(expr: &Expr, constant: &ConstGeneric) -> Result<Value, Error> {
    let (negative, inner) = match expr {
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => (true, &*unary.expr),
        other => (false, other),
    };
    let ConstGeneric { ident, ty, .. } = constant;
    let expected = if is_bool(ty) {
        "`true` or `false`"
    } else {
        "an integer literal"
    };
    let mistaken = || {
        Error::new_spanned(
            expr,
            format!(
                "a value of `{ident}` is {expected}, since its type is `{}`",
                quote!(#ty)
            ),
        )
    };
    let Expr::Lit(literal) = inner else {
        return Err(mistaken());
    };
    match &literal.lit {
        Lit::Bool(value) if is_bool(ty) && !negative => Ok(Value::Bool(value.value)),
        Lit::Int(digits) if !is_bool(ty) => {
            if !digits.suffix().is_empty() && digits.suffix() != quote!(#ty).to_string() {
                return Err(mistaken());
            }
            let value = digits.base10_parse::<i128>()?;
            let value = if negative { -value } else { value };
            let fits =
                eval::integer_range(ty).is_none_or(|(min, max)| (min..=max).contains(&value));
            if fits && i64::try_from(value).is_ok() {
                Ok(Value::Int(value))
            } else {
                Err(Error::new_spanned(
                    expr,
                    format!(
                        "{value} does not fit `{}` (or `i64`, which descriptors hold)",
                        quote!(#ty)
                    ),
                ))
            }
        }
        _ => Err(mistaken()),
    }
}

fn params(signature: &Signature, consts: &[ConstGeneric], errors: &mut Errors) -> Vec<Param> {
    let mut params = Vec::new();
    for input in &signature.inputs {
        let typed = match input {
            FnArg::Typed(typed) => typed,
            FnArg::Receiver(receiver) => {
                errors.at(receiver, "a kernel is a free function: remove `self`");
                continue;
            }
        };
        for attribute in &typed.attrs {
            errors.at(attribute, "attributes on a kernel's parameters are not carried over: put them on the function");
        }
        let ident = match &*typed.pat {
            Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => {
                Some(pat.ident.clone())
            }
            other => {
                errors.at(
                    other,
                    "a kernel's parameter is a plain name: take the value apart in the body",
                );
                None
            }
        };
        let kind = errors.take(param_kind(&typed.ty));
        if let Some(constant) = consts
            .iter()
            .find(|constant| mentions(&typed.ty, &constant.ident))
        {
            errors.at(
                &typed.ty,
                format!(
                    "a parameter's type cannot depend on `{}`: one `launch` serves every variant",
                    constant.ident
                ),
            );
        }
        if let (Some(ident), Some(kind)) = (ident, kind) {
            params.push(Param {
                ident,
                ty: Written::new(&typed.ty),
                kind,
            });
        }
    }
    params
}

/// Whether `ident` stands anywhere in the tokens of `node`.
pub(crate) fn mentions(node: &impl quote::ToTokens, ident: &Ident) -> bool {
    fn search(tokens: TokenStream, ident: &Ident) -> bool {
        tokens.into_iter().any(|token| match token {
            proc_macro2::TokenTree::Ident(found) => found == *ident,
            proc_macro2::TokenTree::Group(group) => search(group.stream(), ident),
            _ => false,
        })
    }
    search(node.to_token_stream(), ident)
}

fn param_kind(ty: &Type) -> Result<ParamKind, Error> {
    match ty {
        Type::Group(inner) => param_kind(&inner.elem),
        Type::Paren(inner) => param_kind(&inner.elem),
        Type::Reference(reference) => {
            let wanted = if reference.mutability.is_some() {
                "GlobalMut"
            } else {
                "Global"
            };
            let message = match &*reference.elem {
                Type::Slice(slice) => {
                    let element = &slice.elem;
                    format!(
                        "a kernel cannot take a slice: write `{wanted}<{}>`, with the length as a scalar",
                        quote!(#element)
                    )
                }
                other => format!(
                    "a kernel cannot take a reference: write `{wanted}<{0}>`, or `{0}` by value",
                    quote!(#other)
                ),
            };
            Err(Error::new_spanned(ty, message))
        }
        Type::Slice(_) => Err(Error::new_spanned(
            ty,
            "a kernel cannot take a slice: write `Global<T>`, with the length as a scalar",
        )),
        Type::Ptr(pointer) => {
            let element = &pointer.elem;
            let message = format!(
                "a kernel cannot take a raw pointer: write `Global<{0}>` or `GlobalMut<{0}>`",
                quote!(#element)
            );
            Err(Error::new_spanned(ty, message))
        }
        Type::ImplTrait(_)
        | Type::TraitObject(_)
        | Type::Infer(_)
        | Type::FnPtr(_)
        | Type::Never(_) => Err(Error::new_spanned(
            ty,
            "a kernel's parameter is `Global<T>`, `GlobalMut<T>` or a scalar type that implements `Element`",
        )),
        Type::Path(path) => {
            let Some(last) = path.path.segments.last() else {
                return Ok(ParamKind::Scalar);
            };
            let element = match &last.arguments {
                PathArguments::AngleBracketed(arguments) if arguments.args.len() == 1 => {
                    match &arguments.args[0] {
                        GenericArgument::Type(element) => Some(Written::new(element)),
                        _ => None,
                    }
                }
                _ => None,
            };
            match (last.ident.to_string().as_str(), element) {
                ("Global", Some(element)) => Ok(ParamKind::Global(element)),
                ("GlobalMut", Some(element)) => Ok(ParamKind::GlobalMut(element)),
                (view @ ("Global" | "GlobalMut"), None) => Err(Error::new_spanned(
                    ty,
                    format!("say what the buffer holds: `{view}<u32>`"),
                )),
                ("Shared", _) => Err(Error::new_spanned(
                    ty,
                    "shared memory is made inside the kernel: `let tile = shared_array!(T, LEN);`",
                )),
                ("bool", _) => Err(Error::new_spanned(
                    ty,
                    "`bool` is no `Element`: take a `u32`, or a const generic",
                )),
                ("usize" | "isize", _) => Err(Error::new_spanned(
                    ty,
                    "a size is `u32` or `u64` at the border of a kernel: its width is the same everywhere",
                )),
                _ => Ok(ParamKind::Scalar),
            }
        }
        _ => Ok(ParamKind::Scalar),
    }
}

struct Attributes {
    doc: String,
    cfgs: Vec<Attribute>,
    allows: Vec<Attribute>,
}

fn attributes(function: &ItemFn, errors: &mut Errors) -> Attributes {
    let mut doc = Vec::new();
    let (mut cfgs, mut allows) = (Vec::new(), Vec::new());
    for attribute in &function.attrs {
        let path = attribute.path();
        if path.is_ident("doc") {
            if let Meta::NameValue(pair) = &attribute.meta
                && let Expr::Lit(literal) = &pair.value
                && let Lit::Str(text) = &literal.lit
            {
                let text = text.value();
                doc.extend(
                    text.lines()
                        .map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end().to_owned()),
                );
                if text.is_empty() {
                    doc.push(String::new());
                }
            }
        } else if path.is_ident("cfg") {
            cfgs.push(attribute.clone());
        } else if path.is_ident("allow") || path.is_ident("expect") {
            // An expectation is for the function; the generated items may have nothing to expect.
            if let Meta::List(list) = &attribute.meta {
                let lints = &list.tokens;
                allows.push(parse_quote!(#[allow(#lints)]));
            }
        } else if ["inline", "no_mangle", "export_name", "unsafe"]
            .iter()
            .any(|name| path.is_ident(name))
        {
            errors.at(
                attribute,
                "the macro decides how a kernel is inlined and exported: remove this attribute",
            );
        } else if path.is_ident("kernel") {
            errors.at(
                attribute,
                "a function is one kernel: put all keys into one `#[kernel(..)]`",
            );
        }
    }
    while doc.last().is_some_and(String::is_empty) {
        doc.pop();
    }
    Attributes {
        doc: doc.join("\n"),
        cfgs,
        allows,
    }
}

fn arch(text: Option<&LitStr>, errors: &mut Errors) -> Arch {
    let mut arch = Arch {
        minimum: 80,
        name: None,
    };
    let Some(text) = text else { return arch };
    let name = text.value();
    let digits = name.strip_prefix("sm_").unwrap_or_default();
    let digits = digits.strip_suffix(['a', 'f']).unwrap_or(digits);
    // `parse` alone would take "+90".
    if digits.starts_with(|first: char| first.is_ascii_digit())
        && let Ok(minimum @ 80..1000) = digits.parse()
    {
        arch = Arch {
            minimum,
            name: Some(name),
        };
    } else {
        errors.at(text, "`arch` is a name such as \"sm_90a\", 80 or later");
    }
    arch
}

/// All combinations that `when` keeps, the last const generic changing fastest.
fn multiply_out(
    kernel: &Ident,
    consts: &[ConstGeneric],
    when: Option<&Expr>,
    errors: &mut Errors,
) -> Vec<Variant> {
    let count = consts.iter().try_fold(1usize, |count, constant| {
        count.checked_mul(constant.values.len())
    });
    if count.is_none_or(|count| count > MAX_VARIANTS) {
        errors.at(kernel, format!("`variants` multiplies out to more than {MAX_VARIANTS} combinations: give fewer values"));
        return Vec::new();
    }
    let mut combinations: Vec<Vec<Value>> = vec![Vec::new()];
    for constant in consts {
        combinations = combinations
            .iter()
            .flat_map(|start| {
                constant
                    .values
                    .iter()
                    .map(move |value| start.iter().copied().chain([*value]).collect())
            })
            .collect();
    }
    if let Some(when) = when {
        let mut failed = false;
        combinations.retain(|values| match holds(when, consts, values) {
            Ok(holds) => holds,
            Err(error) => {
                // The same error for every combination is one error.
                if !failed {
                    errors.add(error);
                }
                failed = true;
                false
            }
        });
        if combinations.is_empty() && !failed {
            errors.at(
                when,
                "`when` holds for no combination: the kernel would have no variant",
            );
        }
    }
    let entry = |values: &[Value]| {
        let parts =
            consts
                .iter()
                .zip(values)
                .map(|(constant, value)| match constant.label(*value) {
                    Some(label) => format!("__{label}"),
                    None => format!("__{}_{}", constant.field.unraw(), value.in_name()),
                });
        format!("{}{}", kernel.unraw(), parts.collect::<String>())
    };
    combinations
        .into_iter()
        .map(|values| Variant {
            entry: entry(&values),
            values,
        })
        .collect()
}

fn holds(when: &Expr, consts: &[ConstGeneric], values: &[Value]) -> Result<bool, Error> {
    match eval::eval(when, &|ident| find(ident, consts, values)).map_err(Fail::into_error)? {
        Value::Bool(holds) => Ok(holds),
        Value::Int(_) => Err(Error::new_spanned(
            when,
            "`when` is a condition, such as `LOG_N >= 11 || RADIX == 8`",
        )),
    }
}

fn find(ident: &Ident, consts: &[ConstGeneric], values: &[Value]) -> Option<Value> {
    consts
        .iter()
        .zip(values)
        .find(|(constant, _)| constant.ident == *ident)
        .map(|(_, value)| *value)
}

/// Looks at a bound in every variant, as far as the macro can evaluate it; the compiler looks at
/// the rest.
fn check_bound(
    key: &str,
    expr: &Expr,
    limits: Limits,
    consts: &[ConstGeneric],
    variants: &[Variant],
    errors: &mut Errors,
) {
    for Variant { values, entry } in variants {
        let error = match eval::eval(expr, &|ident| find(ident, consts, values)) {
            Ok(Value::Int(value)) if (limits.min..=limits.max).contains(&value) => continue,
            Ok(value) => Error::new_spanned(
                expr,
                format!("`{key}` is {value} in `{entry}`: {}", limits.says),
            ),
            Err(Fail::Unknown(_)) => return,
            Err(Fail::Wrong(error)) => error,
        };
        errors.add(error);
        return;
    }
}
