//! Ranges of service addresses.

use crate::kinds::at::At;
use crate::kinds::checks::ip;
use crate::kinds::kind::{Kind, keep_meta};

/// Ranges of service addresses.
pub(crate) static KIND: Kind = Kind {
    reset_status: true,
    prepare_status: |_, new, old| keep_meta(new, old),
    validate: |range| cidrs(&range.at("spec.cidrs"), &range.get("spec")),
    validate_update: Some(update),
    ..Kind::PLAIN
};

fn cidrs(list: &At<'_>, spec: &At<'_>) {
    list.need_because("at least one CIDR required");
    if list.array().len() > 2 {
        let shown = spec.value().cloned().unwrap_or_default();
        list.invalid_as(shown, "may only hold up to 2 values");
    }
    if list.array().len() <= 2 {
        list.items().for_each(|range| ip::canonical_cidr(&range));
    }
    if let [one, two] = list.strings().as_slice()
        && one.contains(':') == two.contains(':')
    {
        list.invalid(
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64",
        );
    }
}

fn update(new: &At<'_>, old: &At<'_>) {
    let (list, was) = (new.at("spec.cidrs"), old.at("spec.cidrs"));
    match (was.array().len(), list.array().len()) {
        (had, has) if had == has => {
            for (now, before) in list.items().zip(was.items()) {
                now.immutable(&before);
            }
        }
        (1, 2) => {
            for (now, before) in list.items().zip(was.items()) {
                now.immutable(&before);
            }
            cidrs(&list, &new.get("spec"));
        }
        _ => list.invalid("field is immutable"),
    }
}
