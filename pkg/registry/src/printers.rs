//! Tables: the columns and cells that `kubectl get` shows for built-in kinds.
