//! Equality and order.

use std::cmp::Ordering;

use copepod_schema::{SchemaRef, node::ListType};

use super::{Failure, List, Map, Result, Val};

/// The whole number that a double is.
pub(crate) fn whole(value: f64) -> Option<i64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "the range is checked, and its ends are powers of two"
    )]
    (value.fract() == 0.0 && (i64::MIN as f64..-(i64::MIN as f64)).contains(&value)).then_some(value as i64)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "numbers of different kinds are compared as the language says"
)]
fn numbers(a: &Val<'_>, b: &Val<'_>) -> Option<Option<Ordering>> {
    use Val::{Double, Int, Uint};
    Some(match (a, b) {
        (Int(a), Int(b)) => Some(a.cmp(b)),
        (Uint(a), Uint(b)) => Some(a.cmp(b)),
        (Double(a), Double(b)) => a.partial_cmp(b),
        (Int(a), Uint(b)) => Some(u64::try_from(*a).map_or(Ordering::Less, |a| a.cmp(b))),
        (Uint(a), Int(b)) => Some(u64::try_from(*b).map_or(Ordering::Greater, |b| a.cmp(&b))),
        (Int(a), Double(b)) => whole(*b).map_or_else(|| (*a as f64).partial_cmp(b), |b| Some(a.cmp(&b))),
        (Double(a), Int(b)) => whole(*a).map_or_else(|| a.partial_cmp(&(*b as f64)), |a| Some(a.cmp(b))),
        (Uint(a), Double(b)) => (*a as f64).partial_cmp(b),
        (Double(a), Uint(b)) => a.partial_cmp(&(*b as f64)),
        _ => return None,
    })
}

/// `==`; values of different kinds differ.
pub(crate) fn equal(a: &Val<'_>, b: &Val<'_>) -> bool {
    if let Some(order) = numbers(a, b) {
        return order == Some(Ordering::Equal);
    }
    match (a, b) {
        (Val::Null, Val::Null) => true,
        (Val::Bool(a), Val::Bool(b)) => a == b,
        (Val::Text(a), Val::Text(b)) => **a == **b,
        (Val::Bytes(a), Val::Bytes(b)) => a == b,
        (Val::Duration(a), Val::Duration(b)) => a == b,
        (Val::Time(a), Val::Time(b)) => a == b,
        (Val::List(a), Val::List(b)) => lists(a, b),
        (Val::Map(a), Val::Map(b)) => maps(a, b),
        (Val::Type(a), Val::Type(b)) => a.name() == b.name(),
        (Val::Optional(None), Val::Optional(None)) => true,
        (Val::Optional(Some(a)), Val::Optional(Some(b))) => equal(a, b),
        (Val::Opaque(a), Val::Opaque(b)) => a == b,
        _ => false,
    }
}

fn lists(a: &List<'_>, b: &List<'_>) -> bool {
    if a.len() != b.len() {
        return false;
    }
    match list_schema(a).or_else(|| list_schema(b)) {
        // The order of sets and keyed lists does not count.
        Some(schema) if schema.list_type() == ListType::Set => {
            a.iter().all(|item| b.iter().any(|other| equal(&item, &other)))
        }
        Some(schema) if schema.list_type() == ListType::Map => a
            .iter()
            .all(|item| b.iter().any(|other| same_keys(&item, &other, schema) && equal(&item, &other))),
        _ => a.iter().zip(b.iter()).all(|(a, b)| equal(&a, &b)),
    }
}

pub(crate) fn list_schema<'a>(list: &List<'a>) -> Option<SchemaRef<'a>> {
    match list {
        List::Json(_, schema) => *schema,
        List::Made(_) => None,
    }
}

/// Whether two items of a keyed list are the same item.
pub(crate) fn same_keys(a: &Val<'_>, b: &Val<'_>, schema: SchemaRef<'_>) -> bool {
    let (Val::Map(Map::Json(a, _)), Val::Map(Map::Json(b, _))) = (a, b) else { return false };
    schema.list_keys().all(|key| a.get(key) == b.get(key))
}

fn maps(a: &Map<'_>, b: &Map<'_>) -> bool {
    a.len() == b.len()
        && a.entries().iter().all(|(key, value)| {
            key.key().and_then(|key| b.get(&key)).is_some_and(|other| equal(value, &other))
        })
}

/// The order of two values that have one.
pub(crate) fn order(a: &Val<'_>, b: &Val<'_>) -> Result<Ordering> {
    if let Some(order) = numbers(a, b) {
        return order.ok_or_else(|| Failure::new("NaN values cannot be ordered"));
    }
    Ok(match (a, b) {
        (Val::Bool(a), Val::Bool(b)) => a.cmp(b),
        (Val::Text(a), Val::Text(b)) => (**a).cmp(&**b),
        (Val::Bytes(a), Val::Bytes(b)) => a.cmp(b),
        (Val::Duration(a), Val::Duration(b)) => a.cmp(b),
        (Val::Time(a), Val::Time(b)) => a.cmp(b),
        _ => return Err(Failure::overload()),
    })
}
