//! Selectors of devices: expressions of `resource.k8s.io` about one `device`.

use crate::{Env, Type, compile, types::Fields};

/// The environment of a selector.
fn env() -> Env {
    let named = |of: Type| Type::map(Type::String, Type::map(Type::String, of));
    let device = Fields::new(
        "kubernetes.DRADevice",
        vec![
            ("driver", Type::String),
            ("attributes", named(Type::Dyn)),
            ("capacity", named(Type::Opaque("kubernetes.Quantity"))),
            ("allowMultipleAllocations", Type::Bool),
        ],
    );
    Env::new().with("device", Type::object(device)).with_bindings()
}

/// Why a selector cannot be.
#[must_use]
pub fn selector_error(expression: &str) -> Option<String> {
    match compile(expression, &env(), &[Type::Dyn]) {
        Err(why) => Some(why),
        Ok(program) => match program.output() {
            Type::Bool | Type::Dyn => None,
            other => Some(format!("must evaluate to bool or the unknown type, not {other}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_about_devices() {
        for fine in [
            "device.driver == 'a'",
            "device.attributes['x'].y == 1",
            "cel.bind(x, device.attributes['x'], x.y && x.z)",
            "device.capacity['x'].y.isGreaterThan(quantity('1'))",
        ] {
            assert_eq!(selector_error(fine), None, "{fine}");
        }
        assert!(selector_error("device.foo").is_some_and(|why| why.contains("undefined field 'foo'")));
        assert_eq!(
            selector_error("device.driver").as_deref(),
            Some("must evaluate to bool or the unknown type, not string")
        );
    }
}
