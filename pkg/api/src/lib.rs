//! The Kubernetes object model as data: resource rows, metadata, selectors, quantities, Status and field errors.
