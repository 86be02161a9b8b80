//! Get and list.

use std::sync::Arc;

use copepod_api::{ApiError, ApiResult, FieldError, FieldErrors, FieldPath, GroupVersionKind};
use copepod_store::{At, ContinueToken, Entry, ListPage, ListRequest, Revision, StoreError};

use super::{
    Store,
    selection::{Selection, selection},
};
use crate::{
    error::{from_store, from_token},
    object::{Object, ObjectList},
    request::{ListOptions, RequestContext, Target},
    subresource,
};

/// Upstream's text for a page that can only go on inconsistently.
const INCONSISTENT: &str = "The provided continue parameter is too old to display a consistent list result. You can \
start a new list without the continue parameter, or use the continue token in this response to retrieve the \
remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were \
created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// Parses a resource version parameter: empty is `None`.
pub(super) fn revision(text: &str) -> Result<Option<Revision>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    match text.parse::<u64>().ok().and_then(|n| Revision::try_from(n).ok()) {
        Some(revision) => Ok(Some(revision)),
        None => Err(format!(
            "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        )),
    }
}

/// The same for reads, which answer a bad one with 400.
fn read_revision(text: &str) -> ApiResult<Option<Revision>> {
    revision(text).map_err(|why| ApiError::bad_request(format!("invalid resource version: {why}")))
}

impl Store {
    /// One object, or its `status`, `scale` or another subresource that can be read.
    ///
    /// # Errors
    /// 404, or a resource version that is not reached in time.
    pub async fn get(
        &self,
        _cx: &RequestContext,
        target: &Target,
        resource_version: &str,
    ) -> ApiResult<Object> {
        let cache = &self.core.cache;
        let key = self.key(target.namespace.as_deref(), &target.name);
        let wanted = revision(resource_version).map_err(|why| ApiError::unreasoned(&why))?;
        let entry = match wanted {
            None => cache.get_fresh(&key).await.map_err(|error| from_store(&error))?,
            // Whatever is there, and everything this server wrote.
            Some(0) => cache.get_fresh(&key).await.map_err(|error| from_store(&error))?,
            Some(wanted) => {
                let empty = None;
                let at = At::NotOlderThan(wanted);
                let request = ListRequest { prefix: &key, start: "", at, limit: 1, filter: &empty };
                cache.list(&request).await.map_err(|error| from_store(&error))?;
                cache.get(&key)
            }
        };
        let entry = self.read_anew(entry.ok_or_else(|| self.not_found(&target.name))?).await?;
        match target.subresource.as_deref() {
            Some("scale") => subresource::scale::read(&self.row, &self.row.load(&entry)?).map(Object::other),
            _ => Object::stored(&self.row, &entry, entry.revision()),
        }
    }

    /// An entry in this row's version; a conversion webhook is asked each time, as upstream's get does.
    async fn read_anew(&self, entry: Arc<Entry>) -> ApiResult<Arc<Entry>> {
        let Some(webhook) = &self.row.webhook else { return Ok(entry) };
        let version = self.row.working.api_version();
        let list = webhook.entries(vec![Arc::clone(&entry)], &version, true).await?;
        Ok(list.into_iter().next().unwrap_or(entry))
    }

    /// The objects of the resource, or of one namespace.
    ///
    /// # Errors
    /// Bad selectors, options or tokens; 410 for a revision that is gone.
    pub async fn list(
        &self,
        _cx: &RequestContext,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> ApiResult<ObjectList> {
        check_list(options)?;
        let selection = selection(&self.row, options)?;
        let mut page = self.page(namespace, options, &selection).await?;
        page.entries = self.converted(page.entries).await?;
        if let Some(late) = &selection.late {
            page.entries.retain(|entry| late(entry));
            page.remaining = None;
        }
        let prefix = self.row.def.key_prefix(namespace);
        tracing::trace!(%prefix, revision = page.revision, "list");
        self.answer(page)
    }

    async fn page(
        &self,
        namespace: Option<&str>,
        options: &ListOptions,
        selection: &Selection,
    ) -> ApiResult<ListPage> {
        // A selector that names the namespace or the object narrows what is looked at.
        let namespace = namespace.or(selection.namespace.as_deref());
        let prefix = self.row.def.key_prefix(namespace);
        let (at, start) = position(options)?;
        let unlimited = options.resource_version == "0";
        let limit = if unlimited { 0 } else { usize::try_from(options.limit).unwrap_or(0) };
        let request = ListRequest { prefix: &prefix, start: &start, at, limit, filter: &selection.filter };
        if let (Some(name), true, At::Newest) =
            (&selection.name, self.row.def.namespaced() == namespace.is_some(), at)
        {
            return self.page_of_one(name, &request).await;
        }
        match self.core.cache.list(&request).await {
            Ok(page) => Ok(page),
            Err(StoreError::Compacted(_)) if !options.continue_.is_empty() => {
                let token = ContinueToken { revision: -1, start: start.clone() };
                let mut error = ApiError::expired(INCONSISTENT);
                error.status_mut().metadata.continue_ = token.encode();
                Err(error)
            }
            Err(error) => Err(from_store(&error)),
        }
    }

    async fn page_of_one(&self, name: &str, request: &ListRequest<'_>) -> ApiResult<ListPage> {
        let revision = self.core.cache.fresh().await.map_err(|error| from_store(&error))?;
        let entry = self.core.cache.get(&format!("{}{name}", request.prefix));
        let entry = entry.filter(|entry| request.filter.as_ref().is_none_or(|wanted| wanted(entry)));
        let revision = revision.max(entry.as_ref().map_or(0, |entry| entry.revision()));
        Ok(ListPage { revision, entries: entry.into_iter().collect(), next: None, remaining: None })
    }

    fn answer(&self, page: ListPage) -> ApiResult<ObjectList> {
        let def = &self.row.def;
        let mut items = Vec::with_capacity(page.entries.len());
        for entry in &page.entries {
            items.push(Object::stored(&self.row, entry, entry.revision())?);
        }
        let token = |start| ContinueToken { revision: page.revision, start }.encode();
        Ok(ObjectList {
            api_version: def.gvk().api_version(),
            kind: def.list_kind.clone(),
            typed: def.custom,
            revision: page.revision,
            continue_: page.next.map(token).unwrap_or_default(),
            remaining: page.remaining,
            items,
        })
    }
}

/// The revision and the start of a list.
fn position(options: &ListOptions) -> ApiResult<(At, String)> {
    let wanted = read_revision(&options.resource_version)?;
    if !options.continue_.is_empty() {
        let token = ContinueToken::decode(&options.continue_).map_err(|error| from_token(&error))?;
        if wanted.is_some_and(|revision| revision != 0) {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let at = if token.revision < 0 { At::Newest } else { At::Exact(token.revision) };
        return Ok((at, token.start));
    }
    let exact = options.resource_version_match == "Exact"
        || (options.resource_version_match.is_empty() && options.limit > 0);
    Ok(match wanted {
        None => (At::Newest, String::new()),
        Some(0) => (At::Any, String::new()),
        Some(revision) if exact => (At::Exact(revision), String::new()),
        Some(revision) => (At::NotOlderThan(revision), String::new()),
    })
}

/// Options that contradict each other.
fn check_list(options: &ListOptions) -> ApiResult<()> {
    let field = FieldPath::new("resourceVersionMatch");
    let chosen = options.resource_version_match.as_str();
    let mut errors = FieldErrors::new();
    if !chosen.is_empty() {
        if options.resource_version.is_empty() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            errors.push(FieldError::forbidden(&field, why));
        }
        if !options.continue_.is_empty() {
            let why = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(FieldError::forbidden(&field, why));
        }
        if chosen != "Exact" && chosen != "NotOlderThan" {
            errors.push(FieldError::not_supported(&field, chosen, &["Exact", "NotOlderThan", ""]));
        }
        if chosen == "Exact" && options.resource_version == "0" {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.push(FieldError::forbidden(&field, why));
        }
    }
    if options.send_initial_events.is_some() {
        let why = "sendInitialEvents is forbidden for list";
        errors.push(FieldError::forbidden(&FieldPath::new("sendInitialEvents"), why));
    }
    refuse(&errors)
}

/// An invalid `ListOptions`, when there is any error.
pub(super) fn refuse(errors: &FieldErrors) -> ApiResult<()> {
    if errors.is_empty() {
        return Ok(());
    }
    let gvk = GroupVersionKind::new("meta.k8s.io", "v1", "ListOptions");
    Err(ApiError::invalid(&gvk, "", errors))
}
