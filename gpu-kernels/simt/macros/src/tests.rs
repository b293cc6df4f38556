//! Parsing and the model, on the level of tokens. What the expansion does when compiled is tested
//! in crate `simt`.

use crate::eval::{self, Fail};
use crate::model::{Kernel, ParamKind, Value};
use crate::parse;
use crate::source;
use proc_macro2::TokenStream;

fn tokens(text: &str) -> TokenStream {
    text.parse().unwrap()
}

fn kernel(attribute: &str, function: &str) -> Result<Kernel, Vec<String>> {
    let function = syn::parse_str(function).unwrap();
    parse::kernel(tokens(attribute), &function)
        .map_err(|errors| errors.into_iter().map(|error| error.to_string()).collect())
}

fn accepted(attribute: &str, function: &str) -> Kernel {
    kernel(attribute, function).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn refused(attribute: &str, function: &str) -> Vec<String> {
    kernel(attribute, function).map_or_else(|errors| errors, |_| panic!("accepted"))
}

fn entries(kernel: &Kernel) -> Vec<&str> {
    kernel
        .variants
        .iter()
        .map(|variant| variant.entry.as_str())
        .collect()
}

fn value(text: &str) -> Result<Value, Fail> {
    let expr = syn::parse_str(text).unwrap();
    let lookup = |ident: &proc_macro2::Ident| match ident.to_string().as_str() {
        "N" => Some(Value::Int(12)),
        "ON" => Some(Value::Bool(true)),
        _ => None,
    };
    eval::eval(&expr, &lookup)
}

fn int(text: &str) -> i128 {
    match value(text) {
        Ok(Value::Int(value)) => value,
        Ok(Value::Bool(_)) => panic!("{text} is a bool"),
        Err(fail) => panic!("{text}: {}", fail.into_error()),
    }
}

fn holds(text: &str) -> bool {
    match value(text) {
        Ok(Value::Bool(value)) => value,
        Ok(Value::Int(_)) => panic!("{text} is an integer"),
        Err(fail) => panic!("{text}: {}", fail.into_error()),
    }
}

#[test]
fn integers_follow_rust() {
    assert_eq!(int("1 + 2 * 3"), 7);
    assert_eq!(int("(1 + 2) * 3"), 9);
    assert_eq!(int("4 << N - 2"), 4096);
    assert_eq!(int("-7 / 2"), -3);
    assert_eq!(int("-7 % 2"), -1);
    assert_eq!(int("-8 >> 1"), -4);
    assert_eq!(int("1 >> 200"), 0);
    assert_eq!(int("0b1100 & 0x6 | 1 ^ 8"), 13);
    assert_eq!(int("N as u64 * 1_000u64"), 12_000);
    assert_eq!(int("ON as usize + 1"), 2);
}

#[test]
fn conditions_follow_rust() {
    assert!(holds("N >= 11 || N == 8"));
    assert!(holds("N == 12 && ON"));
    assert!(!holds("!ON"));
    assert!(holds("(N < 12) == false"));
    assert!(holds("N <= 12 && N > 11 && N != 13"));
    assert!(holds("ON & !false ^ false | false"));
}

#[test]
fn conditions_stop_early_as_rust_does() {
    assert!(!holds("N == 0 && 64 / (N - 12) == 1"));
    assert!(holds("N == 12 || 64 / (N - 12) == 1"));
}

#[test]
fn wrong_expressions_are_told_from_unknown_ones() {
    for text in [
        "1 / 0",
        "1 % (N - 12)",
        "N + ON",
        "N && ON",
        "-ON",
        "ON < ON",
        "1 << -1",
        "1 << 127",
        "-1 as u8",
        "300 as u8",
    ] {
        assert!(matches!(value(text), Err(Fail::Wrong(_))), "{text}");
    }
    for text in [
        "THREADS",
        "size_of::<u32>()",
        "!N",
        "\"text\"",
        "a::B",
        "1.5",
        "if ON { 1 } else { 2 }",
        "N as f32",
    ] {
        assert!(matches!(value(text), Err(Fail::Unknown(_))), "{text}");
    }
}

#[test]
fn a_kernel_without_consts_has_one_variant_of_its_own_name() {
    let kernel = accepted(
        "block = 128",
        "fn copy(a: Global<u32>, b: GlobalMut<u32>) {}",
    );
    assert_eq!(entries(&kernel), ["copy"]);
    assert_eq!(
        (kernel.arch.minimum, kernel.arch.is_specific()),
        (80, false)
    );
}

#[test]
fn variants_are_the_product_with_the_last_const_fastest() {
    let kernel = accepted(
        "block = 256, variants(SIGNED = [true, false], LOG_N = [10, 11, -1])",
        "fn fold<const LOG_N: i32, const SIGNED: bool>() {}",
    );
    let expected = [
        "fold__log_n_10__signed_1",
        "fold__log_n_10__signed_0",
        "fold__log_n_11__signed_1",
        "fold__log_n_11__signed_0",
        "fold__log_n_m1__signed_1",
        "fold__log_n_m1__signed_0",
    ];
    assert_eq!(entries(&kernel), expected);
    assert_eq!(
        kernel.variants[4].values,
        [Value::Int(-1), Value::Bool(true)]
    );
}

#[test]
fn when_filters_combinations() {
    let kernel = accepted(
        "block = 64, variants(A = [1, 2, 4], B = [1, 2]), when = A * B <= 4 && A != 2",
        "fn k<const A: usize, const B: u32>() {}",
    );
    assert_eq!(
        entries(&kernel),
        ["k__a_1__b_1", "k__a_1__b_2", "k__a_4__b_1"]
    );
}

#[test]
fn keywords_stay_usable_as_names() {
    let kernel = accepted(
        "block = 32, variants(TYPE = [0])",
        "fn r#loop<const TYPE: u8>(r#in: Global<u32>) {}",
    );
    assert_eq!(entries(&kernel), ["loop__type_0"]);
    assert_eq!(kernel.consts[0].field.to_string(), "r#type");
}

#[test]
fn parameters_are_told_apart() {
    let kernel = accepted(
        "block = 32",
        "fn k(a: simt::Global<U32x4>, mut b: GlobalMut<crate::Word>, q: Modulus) {}",
    );
    let kinds: Vec<String> = kernel
        .params
        .iter()
        .map(|param| match &param.kind {
            ParamKind::Global(element) => format!("read {}", element.text),
            ParamKind::GlobalMut(element) => format!("write {}", element.text),
            ParamKind::Scalar => "scalar".to_owned(),
        })
        .collect();
    assert_eq!(kinds, ["read U32x4", "write crate::Word", "scalar"]);
}

#[test]
fn architectures_are_parsed() {
    let arch = |text: &str| accepted(&format!("block = 32, arch = {text:?}"), "fn k() {}").arch;
    assert_eq!(
        (arch("sm_90a").minimum, arch("sm_90a").is_specific()),
        (90, true)
    );
    assert_eq!(
        (arch("sm_89").minimum, arch("sm_89").is_specific()),
        (89, false)
    );
    assert_eq!(arch("sm_120f").minimum, 120);
    for text in [
        "90a", "sm_", "sm_75", "sm_90aa", "sm_90x", "sm_-90", "sm_+90",
    ] {
        let errors = refused(&format!("block = 32, arch = {text:?}"), "fn k() {}");
        assert!(errors[0].contains("`arch` is a name"), "{text}: {errors:?}");
    }
}

#[test]
fn the_doc_comment_is_kept() {
    let function = "/// First.\n///\n///   code\nfn k() {}";
    let kernel = accepted("block = 32", function);
    assert_eq!(kernel.doc, "First.\n\n  code");
    assert_eq!(accepted("block = 32", "/** One. */ fn k() {}").doc, "One.");
}

#[test]
fn lints_and_cfgs_reach_the_generated_items() {
    let kernel = accepted(
        "block = 32",
        "#[cfg(feature = \"x\")] #[expect(unused)] #[allow(dead_code)] fn k() {}",
    );
    let texts = |attributes: &[syn::Attribute]| -> Vec<String> {
        attributes
            .iter()
            .map(|attribute| quote::quote!(#attribute).to_string())
            .collect()
    };
    assert_eq!(texts(&kernel.cfgs), ["# [cfg (feature = \"x\")]"]);
    assert_eq!(
        texts(&kernel.allows),
        ["# [allow (unused)]", "# [allow (dead_code)]"]
    );
}

#[test]
fn several_mistakes_are_reported_together() {
    let errors = refused(
        "blocks = 256, variants(B = [1], A = [1, 1, x, true])",
        "async unsafe extern \"C\" fn k<T, const A: usize, const C: bool>(a: &[u32], b: Global) -> u32 { 0 }",
    );
    let expected = [
        "has no key `blocks`",
        "say how many threads",
        "cannot be async",
        "a safe function",
        "remove `extern`",
        "returns nothing",
        "write `T` out",
        "write `Global<u32>`",
        "`Global<u32>`",
        "has no const generic `B`; it has `A`, `C`",
        "1 stands twice",
        "a value of `A` is an integer literal",
        "a value of `A` is an integer literal",
        "gives no values for `C`",
    ];
    assert_eq!(errors.len(), expected.len(), "{errors:#?}");
    for (error, expected) in errors.iter().zip(expected) {
        assert!(error.contains(expected), "{error:?} lacks {expected:?}");
    }
}

#[test]
fn bounds_are_checked_in_every_variant() {
    let function = "fn k<const N: usize>() {}";
    for (attribute, expected) in [
        (
            "block = N * 512, variants(N = [1, 2, 4])",
            "`block` is 2048 in `k__n_4`: a block has 1 to 1024 threads",
        ),
        ("block = N, variants(N = [0])", "`block` is 0 in `k__n_0`"),
        (
            "block = N > 1, variants(N = [1])",
            "`block` is false in `k__n_1`",
        ),
        ("block = 32 / N, variants(N = [0])", "division by zero"),
        (
            "block = 32, min_blocks = N, variants(N = [33])",
            "`min_blocks` is 33",
        ),
        (
            "block = 32, shared = 1 << N, variants(N = [17, 18])",
            "`shared` is 262144 in `k__n_18`",
        ),
    ] {
        let errors = refused(attribute, function);
        assert!(
            errors.len() == 1 && errors[0].contains(expected),
            "{attribute}: {errors:?}"
        );
    }
    // A constant of the crate is left to the compiler.
    accepted("block = THREADS * N, variants(N = [1])", function);
}

#[test]
fn when_must_be_a_condition_that_holds_somewhere() {
    let function = "fn k<const N: usize>() {}";
    for (when, expected) in [
        ("N", "`when` is a condition"),
        ("N > 2", "holds for no combination"),
        ("N < LIMIT", "`LIMIT` is no const generic of this kernel"),
        (
            "N.is_power_of_two()",
            "cannot be evaluated while the macro expands",
        ),
    ] {
        let errors = refused(
            &format!("block = 32, variants(N = [1, 2]), when = {when}"),
            function,
        );
        assert!(
            errors.len() == 1 && errors[0].contains(expected),
            "{when}: {errors:?}"
        );
    }
}

#[test]
fn values_fit_their_type() {
    for (ty, value, expected) in [
        ("u8", "256", "256 does not fit `u8`"),
        ("u32", "-1", "-1 does not fit `u32`"),
        ("u64", "9223372036854775808", "does not fit `u64` (or `i64`"),
        ("u32", "1u64", "an integer literal, since its type is `u32`"),
        ("bool", "1", "`true` or `false`, since its type is `bool`"),
        ("u32", "1.5", "an integer literal"),
    ] {
        let errors = refused(
            &format!("block = 32, variants(N = [{value}])"),
            &format!("fn k<const N: {ty}>() {{}}"),
        );
        assert!(
            errors.len() == 1 && errors[0].contains(expected),
            "{ty} {value}: {errors:?}"
        );
    }
    accepted(
        "block = 32, variants(N = [-128, 127i8])",
        "fn k<const N: i8>() {}",
    );
}

#[test]
fn a_product_that_exploded_is_refused() {
    let values = (0..33)
        .map(|value| value.to_string())
        .collect::<Vec<_>>()
        .join(", ");
    let attribute = format!("block = 32, variants(A = [{values}], B = [{values}])");
    let errors = refused(&attribute, "fn k<const A: u32, const B: u32>() {}");
    assert!(
        errors[0].contains("more than 1024 combinations"),
        "{errors:?}"
    );
}

#[test]
fn expressions_are_quoted_as_written() {
    for text in [
        "n as usize <= a.len()",
        "!q.is_valid(3, [1; 2])",
        "x::<4>() && (a | b) != -1",
        "if c { 1 } else { 2 } > 0",
        "f()",
    ] {
        assert_eq!(source::text(tokens(text)), text);
        // Through syn and back, as the macro does it.
        let expr: syn::Expr = syn::parse_str(text).unwrap();
        assert_eq!(source::text(quote::quote!(#expr)), text);
    }
    assert_eq!(source::text(tokens("n\n    <=   4")), "n <= 4");
}

#[test]
fn words_without_positions_do_not_touch() {
    assert_eq!(source::text(quote::quote!(n as usize)), "n as usize");
}

#[test]
fn paths_are_moved_into_the_generated_module() {
    for (outside, inside) in [
        ("super::Word", "super::super::Word"),
        ("super::super::Word", "super::super::super::Word"),
        ("self::Word", "super::Word"),
        ("crate::a::Word", "crate::a::Word"),
        ("Global<super::Word>", "Global<super::super::Word>"),
        (
            "f(|x: super::Word| x) && self::N > 1",
            "f(|x: super::super::Word| x) && super::N > 1",
        ),
        ("[super::N; 2]", "[super::super::N; 2]"),
    ] {
        let written = source::Written::new(tokens(outside));
        assert_eq!(written.text, outside);
        let expected = tokens(inside).to_string();
        assert_eq!(quote::quote!(#written).to_string(), expected);
    }
}

#[test]
fn a_named_value_stands_in_entries_by_its_name() {
    let kernel = accepted(
        "block = 32, variants(METHOD = [schoolbook = 0, karatsuba = 1], SIGNED = [signed = true, unsigned = false])",
        "fn mul<const METHOD: u32, const SIGNED: bool>(c: GlobalMut<u32>) {}",
    );
    assert_eq!(
        entries(&kernel),
        [
            "mul__schoolbook__signed",
            "mul__schoolbook__unsigned",
            "mul__karatsuba__signed",
            "mul__karatsuba__unsigned"
        ]
    );
}

#[test]
fn names_of_values_are_one_lower_case_word_each_once() {
    let mul = "fn mul<const METHOD: u32>(c: GlobalMut<u32>) {}";
    for (values, says) in [
        ("[a::b = 0]", "one word"),
        ("[Karatsuba = 0]", "lower case"),
        ("[a__b = 0]", "lower case"),
        ("[a = 0, a = 1]", "same name"),
    ] {
        let errors = refused(&format!("block = 32, variants(METHOD = {values})"), mul);
        assert!(
            errors.iter().any(|error| error.contains(says)),
            "{values}: {errors:?}"
        );
    }
}
