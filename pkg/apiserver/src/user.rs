//! Who sends a request: what every layer asks about a [`UserInfo`].

pub(crate) use copepod_registry::UserInfo;

/// The group of every authenticated user.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// The group of anonymous requests.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group that may do everything, whatever RBAC says.
pub(crate) const MASTERS: &str = "system:masters";
/// The prefix of ServiceAccount user names.
pub(crate) const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// The identity of requests without credentials.
pub(crate) fn anonymous() -> UserInfo {
    UserInfo {
        name: "system:anonymous".to_owned(),
        groups: vec![UNAUTHENTICATED.to_owned()],
        ..UserInfo::default()
    }
}

/// Questions about a user.
pub(crate) trait Identity {
    /// Whether the user belongs to `group`.
    fn in_group(&self, group: &str) -> bool;
    /// The same user in `system:authenticated`, as upstream's authenticators leave it.
    fn into_authenticated(self) -> Self;
    /// The namespace and name of a ServiceAccount user.
    fn service_account(&self) -> Option<(&str, &str)>;
    /// The node's name of a kubelet: `system:node:<name>` in `system:nodes`. Empty for a nameless one.
    fn node_name(&self) -> Option<&str>;
}

impl Identity for UserInfo {
    fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    fn into_authenticated(mut self) -> Self {
        if !self.in_group(AUTHENTICATED) && !self.in_group(UNAUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    fn service_account(&self) -> Option<(&str, &str)> {
        self.name.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')
    }

    fn node_name(&self) -> Option<&str> {
        self.name.strip_prefix("system:node:").filter(|_| self.in_group("system:nodes"))
    }
}

/// The user a ServiceAccount acts as.
pub(crate) fn service_account_user(namespace: &str, name: &str, uid: &str) -> UserInfo {
    UserInfo {
        name: format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"),
        uid: uid.to_owned(),
        groups: vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")],
        ..UserInfo::default()
    }
}
