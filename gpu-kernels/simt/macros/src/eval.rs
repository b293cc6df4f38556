//! Evaluates the expressions of the attribute while the macro expands: `when`, and `block`,
//! `min_blocks`, `shared` as far as they stay within the same language. Integers are `i128`, so no
//! intermediate result of sensible size overflows.

use proc_macro2::Ident;
use quote::ToTokens;
use syn::{BinOp, Error, Expr, Lit, Type, UnOp};

use crate::model::Value;

/// Why an expression has no value.
pub(crate) enum Fail {
    /// It uses something the macro cannot see, such as a constant of the crate.
    Unknown(Error),
    /// It can have no value: mixed types, a division by zero, an overflow.
    Wrong(Error),
}

impl Fail {
    pub(crate) fn into_error(self) -> Error {
        match self {
            Fail::Unknown(error) | Fail::Wrong(error) => error,
        }
    }
}

/// Evaluates `expr`, where `lookup` knows the const generics.
pub(crate) fn eval(expr: &Expr, lookup: &dyn Fn(&Ident) -> Option<Value>) -> Result<Value, Fail> {
    match expr {
        Expr::Paren(inner) => eval(&inner.expr, lookup),
        Expr::Group(inner) => eval(&inner.expr, lookup),
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(value) => {
                let value = value.base10_parse::<i128>().map_err(Fail::Wrong)?;
                Ok(Value::Int(value))
            }
            Lit::Bool(value) => Ok(Value::Bool(value.value)),
            other => Err(unknown(&other)),
        },
        Expr::Path(path) => {
            let ident = path.path.get_ident().ok_or_else(|| unknown(&path))?;
            lookup(ident).ok_or_else(|| {
                let message = format!(
                    "`{ident}` is no const generic of this kernel that `variants` gives values"
                );
                Fail::Unknown(Error::new_spanned(ident, message))
            })
        }
        Expr::Unary(unary) => {
            let value = eval(&unary.expr, lookup)?;
            match (&unary.op, value) {
                (UnOp::Not(_), Value::Bool(value)) => Ok(Value::Bool(!value)),
                (UnOp::Neg(_), Value::Int(value)) => value
                    .checked_neg()
                    .map(Value::Int)
                    .ok_or_else(|| overflow(&expr)),
                (UnOp::Neg(_), Value::Bool(_)) => Err(wrong(&expr, "`-` takes an integer")),
                // `!` of an integer depends on its width, which an evaluation over unbounded
                // integers does not know.
                _ => Err(unknown(&expr)),
            }
        }
        Expr::Cast(cast) => {
            let value = eval(&cast.expr, lookup)?.number();
            let (min, max) = integer_range(&cast.ty).ok_or_else(|| unknown(&cast.ty))?;
            if (min..=max).contains(&value) {
                Ok(Value::Int(value))
            } else {
                Err(wrong(
                    expr,
                    &format!("{value} does not fit the type of this cast"),
                ))
            }
        }
        Expr::Binary(binary) => {
            let left = eval(&binary.left, lookup)?;
            // Short-circuit, so that `N != 0 && 64 % N == 0` means what it means in Rust.
            match (&binary.op, left) {
                (BinOp::And(_), Value::Bool(false)) | (BinOp::Or(_), Value::Bool(true)) => {
                    return Ok(left);
                }
                _ => {}
            }
            let right = eval(&binary.right, lookup)?;
            match (left, right) {
                (Value::Int(left), Value::Int(right)) => integers(&binary.op, left, right, expr),
                (Value::Bool(left), Value::Bool(right)) => bools(&binary.op, left, right, expr),
                _ => Err(wrong(expr, "one side is an integer and the other a bool")),
            }
        }
        other => Err(unknown(&other)),
    }
}

fn integers(op: &BinOp, left: i128, right: i128, at: &Expr) -> Result<Value, Fail> {
    let shift =
        || u32::try_from(right).map_err(|_| wrong(at, "shift by a negative or huge amount"));
    let value = match op {
        BinOp::Add(_) => left.checked_add(right),
        BinOp::Sub(_) => left.checked_sub(right),
        BinOp::Mul(_) => left.checked_mul(right),
        BinOp::Div(_) | BinOp::Rem(_) if right == 0 => return Err(wrong(at, "division by zero")),
        BinOp::Div(_) => left.checked_div(right),
        BinOp::Rem(_) => left.checked_rem(right),
        // A shift that loses bits is an overflow: the integers here have no width to cut at.
        BinOp::Shl(_) => 1i128
            .checked_shl(shift()?)
            .filter(|factor| *factor > 0)
            .and_then(|factor| left.checked_mul(factor)),
        BinOp::Shr(_) => Some(
            left.checked_shr(shift()?)
                .unwrap_or(if left < 0 { -1 } else { 0 }),
        ),
        BinOp::BitAnd(_) => Some(left & right),
        BinOp::BitOr(_) => Some(left | right),
        BinOp::BitXor(_) => Some(left ^ right),
        BinOp::Eq(_) => return Ok(Value::Bool(left == right)),
        BinOp::Ne(_) => return Ok(Value::Bool(left != right)),
        BinOp::Lt(_) => return Ok(Value::Bool(left < right)),
        BinOp::Le(_) => return Ok(Value::Bool(left <= right)),
        BinOp::Gt(_) => return Ok(Value::Bool(left > right)),
        BinOp::Ge(_) => return Ok(Value::Bool(left >= right)),
        BinOp::And(_) | BinOp::Or(_) => {
            return Err(wrong(at, "`&&` and `||` take conditions, not integers"));
        }
        _ => return Err(unknown(at)),
    };
    value.map(Value::Int).ok_or_else(|| overflow(at))
}

fn bools(op: &BinOp, left: bool, right: bool, at: &Expr) -> Result<Value, Fail> {
    let value = match op {
        BinOp::And(_) | BinOp::BitAnd(_) => left && right,
        BinOp::Or(_) | BinOp::BitOr(_) => left || right,
        BinOp::Eq(_) => left == right,
        BinOp::Ne(_) | BinOp::BitXor(_) => left != right,
        _ => return Err(wrong(at, "this operator takes integers, not conditions")),
    };
    Ok(Value::Bool(value))
}

/// The range of a primitive integer type; `usize` and `isize` have 64 bits on every machine with
/// such a GPU.
pub(crate) fn integer_range(ty: &Type) -> Option<(i128, i128)> {
    let Type::Path(path) = ty else { return None };
    let range = match path.path.get_ident()?.to_string().as_str() {
        "u8" => (0, u8::MAX.into()),
        "u16" => (0, u16::MAX.into()),
        "u32" => (0, u32::MAX.into()),
        "u64" | "usize" => (0, u64::MAX.into()),
        "i8" => (i8::MIN.into(), i8::MAX.into()),
        "i16" => (i16::MIN.into(), i16::MAX.into()),
        "i32" => (i32::MIN.into(), i32::MAX.into()),
        "i64" | "isize" => (i64::MIN.into(), i64::MAX.into()),
        _ => return None,
    };
    Some(range)
}

fn wrong(at: &impl ToTokens, message: &str) -> Fail {
    Fail::Wrong(Error::new_spanned(at, message))
}

fn overflow(at: &impl ToTokens) -> Fail {
    wrong(at, "the value overflows 128 bits")
}

fn unknown(at: &impl ToTokens) -> Fail {
    Fail::Unknown(Error::new_spanned(
        at,
        "cannot be evaluated while the macro expands: write it with literals, const generics, `+ - * / % << >> & | ^`, comparisons, \
         `&& || !` and casts to integers",
    ))
}
