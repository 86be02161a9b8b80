//! `Impersonate-…` headers: acting as another user, allowed by RBAC's verb `impersonate`.

use copepod_api::{ApiError, ApiResult};
use http::HeaderMap;

use super::request_header::prefixed;
use crate::authz::{Authorizer, Check};
use crate::user::{self, Identity as _, UserInfo};

const EXTRA: &str = "impersonate-extra-";

/// Whom the headers ask to impersonate; `None` when they do not ask.
fn requested(headers: &HeaderMap) -> ApiResult<Option<UserInfo>> {
    let values = |name: &str| -> Vec<String> {
        headers.get_all(name).iter().filter_map(|v| v.to_str().ok()).map(str::to_owned).collect()
    };
    let name = values("impersonate-user").into_iter().next().unwrap_or_default();
    let uid = values("impersonate-uid").into_iter().next().unwrap_or_default();
    let groups = values("impersonate-group");
    let mut user = UserInfo { name, uid, groups, ..UserInfo::default() };
    for (key, value) in prefixed(headers, EXTRA) {
        user.extra.entry(key).or_default().push(value);
    }
    if user.name.is_empty() {
        if user.groups.is_empty() && user.extra.is_empty() && user.uid.is_empty() {
            return Ok(None);
        }
        // Upstream prints the Go struct.
        let quoted: Vec<String> = user.groups.iter().map(|group| format!("{group:?}")).collect();
        let list = if quoted.is_empty() { "(nil)".to_owned() } else { format!("{{{}}}", quoted.join(", ")) };
        return Err(ApiError::bad_request(format!(
            "requested &user.DefaultInfo{{Name:\"\", UID:{:?}, Groups:[]string{list}, Extra:map[string][]string(nil)}} \
             without impersonating a user name",
            user.uid
        )));
    }
    Ok(Some(user))
}

/// The user to go on with: the impersonated one when asked for and allowed.
pub(crate) async fn impersonate(
    real: UserInfo,
    headers: &HeaderMap,
    authorizer: &Authorizer,
) -> ApiResult<UserInfo> {
    let Some(mut wanted) = requested(headers)? else { return Ok(real) };
    for check in checks(&wanted) {
        authorizer.require(&Check { user: &real, ..check.as_check() }).await?;
    }
    if wanted.groups.is_empty()
        && let Some((namespace, name)) = wanted.service_account()
    {
        wanted.groups = user::service_account_user(namespace, name, "").groups;
    }
    if wanted.name == "system:anonymous" {
        if !wanted.in_group(user::UNAUTHENTICATED) {
            wanted.groups.push(user::UNAUTHENTICATED.to_owned());
        }
    } else {
        wanted = wanted.into_authenticated();
    }
    Ok(wanted)
}

struct Wanted {
    group: &'static str,
    resource: &'static str,
    subresource: String,
    namespace: String,
    name: String,
}

impl Wanted {
    fn as_check(&self) -> Check<'_> {
        Check {
            verb: "impersonate",
            group: self.group,
            resource: self.resource,
            subresource: &self.subresource,
            namespace: &self.namespace,
            name: &self.name,
            is_resource: true,
            ..Check::default()
        }
    }
}

fn checks(wanted: &UserInfo) -> Vec<Wanted> {
    const AUTHENTICATION: &str = "authentication.k8s.io";
    let row = |group, resource, subresource: &str, namespace: &str, name: &str| Wanted {
        group,
        resource,
        subresource: subresource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let mut rows = vec![match wanted.service_account() {
        Some((namespace, name)) => row("", "serviceaccounts", "", namespace, name),
        None => row("", "users", "", "", &wanted.name),
    }];
    rows.extend(wanted.groups.iter().map(|g| row("", "groups", "", "", g)));
    if !wanted.uid.is_empty() {
        rows.push(row(AUTHENTICATION, "uids", "", "", &wanted.uid));
    }
    for (key, values) in &wanted.extra {
        rows.extend(values.iter().map(|v| row(AUTHENTICATION, "userextras", key, "", v)));
    }
    rows
}
