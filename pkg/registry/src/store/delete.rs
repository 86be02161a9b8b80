//! Delete and delete-collection.

use std::sync::Arc;

use copepod_api::{
    ApiError, ApiResult, FieldError, FieldErrors, FieldPath, GroupResource, GroupVersionKind, Reason, Status,
    meta, status::StatusDetails,
};
use copepod_store::Entry;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{
    Commit, Store,
    pipeline::{Part, options},
};
use crate::{
    admission::{Attributes, Operation},
    crd, metadata,
    object::{Deleted, Object, ObjectList},
    request::{DeleteOptions, ListOptions, Propagation, RequestContext, Target},
    row::GarbagePolicy,
    subresource,
};

/// What a delete does to the object as it is.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Remove it.
    Remove,
    /// Store this, and leave the rest to finalizers or the grace period.
    Mark(Value),
    /// Store this, then remove it.
    MarkAndRemove(Value),
    /// It is going already, by its grace period.
    Pending,
    /// It is going already, and waits for its finalizers.
    Waiting,
}

impl Store {
    /// Deletes an object, now or when its grace period and finalizers allow.
    ///
    /// # Errors
    /// 404, 409 for preconditions that do not hold, what admission refuses.
    pub async fn delete(
        &self,
        cx: &RequestContext,
        target: &Target,
        options: &DeleteOptions,
    ) -> ApiResult<Deleted> {
        if self.row.allocation.is_some() {
            let (store, cx, target, options) = (self.clone(), cx.clone(), target.clone(), options.clone());
            return Self::whole(async move { store.delete_here(&cx, &target, &options).await }).await;
        }
        self.delete_here(cx, target, options).await
    }

    async fn delete_here(
        &self,
        cx: &RequestContext,
        target: &Target,
        options: &DeleteOptions,
    ) -> ApiResult<Deleted> {
        check_options(options)?;
        if let Some(why) = self.row.hooks.undeletable(&target.name) {
            return Err(ApiError::forbidden(&self.resource(), &target.name, why));
        }
        self.warn_orphans(cx, options);
        let mut current = self.current(target.namespace.as_deref(), &target.name).await?;
        let mut admitted: Option<i64> = None;
        loop {
            let entry = current.ok_or_else(|| self.not_found(&target.name))?;
            let object = self.load(&entry).await?;
            if admitted != Some(entry.revision()) {
                self.admit_delete(cx, target, options, &object).await?;
                admitted = Some(entry.revision());
            }
            self.check_preconditions(&target.name, options, &object)?;
            match self.delete_step(cx, &entry, options, object).await? {
                Ok(deleted) => return Ok(deleted),
                Err(now) => current = now,
            }
        }
    }

    /// Jobs leave their pods unless told otherwise, which surprises.
    fn warn_orphans(&self, cx: &RequestContext, options: &DeleteOptions) {
        let chosen = options.propagation_policy.is_some() || options.orphan_dependents.is_some();
        if !chosen && self.row.garbage == GarbagePolicy::OrphanDependents && self.row.def.plural == "jobs" {
            cx.warnings.add(
                "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to \
                 remove them or set propagationPolicy=Orphan to suppress this warning",
            );
        }
    }

    /// One attempt; `Err` carries the entry as somebody else has changed it meanwhile.
    async fn delete_step(
        &self,
        cx: &RequestContext,
        entry: &Arc<Entry>,
        options: &DeleteOptions,
        object: Value,
    ) -> ApiResult<Result<Deleted, Option<Arc<Entry>>>> {
        let (key, revision) = (entry.key().to_owned(), entry.revision());
        match self.plan(cx, options, &object) {
            Step::Pending => Ok(Ok(self.answer_delete(&object, false))),
            Step::Waiting => {
                let object = Box::new(Object::served(&self.row, self.row.serve(object)));
                Ok(Ok(Deleted::Object { object, gone: false }))
            }
            Step::Remove => self.remove_object(cx, &key, revision, &object).await,
            Step::Mark(marked) => match self.commit(cx, &key, &marked, revision).await? {
                Commit::Done(written) => {
                    let object = Box::new(self.answer_object(cx, &written, &marked).await?);
                    Ok(Ok(Deleted::Object { object, gone: false }))
                }
                Commit::Lost(now) => Ok(Err(now)),
            },
            Step::MarkAndRemove(marked) => match self.commit(cx, &key, &marked, revision).await? {
                Commit::Done(written) => {
                    let done = self.remove_object(cx, &key, written.revision(), &marked).await?;
                    // Gone in between is as good.
                    Ok(match done {
                        Err(None) => Ok(self.answer_delete(&marked, true)),
                        other => other,
                    })
                }
                Commit::Lost(now) => Ok(Err(now)),
            },
        }
    }

    async fn remove_object(
        &self,
        cx: &RequestContext,
        key: &str,
        revision: i64,
        object: &Value,
    ) -> ApiResult<Result<Deleted, Option<Arc<Entry>>>> {
        match self.remove(cx, key, revision).await? {
            Ok(deleted_at) => {
                self.release(cx, object).await;
                let mut object = object.clone();
                meta::metadata_mut(&mut object)
                    .insert("resourceVersion".to_owned(), deleted_at.to_string().into());
                Ok(Ok(self.answer_delete(&object, true)))
            }
            Err(now) => Ok(Err(now)),
        }
    }

    /// The decision, without doing it.
    fn plan(&self, cx: &RequestContext, options: &DeleteOptions, object: &Value) -> Step {
        let mut new = object.clone();
        let graceful = match self.grace(cx.now, options, &mut new) {
            Grace::Pending => return Step::Pending,
            Grace::None => None,
            Grace::Seconds(seconds) => Some(seconds),
        };
        let collected = self.garbage_finalizers(options, object);
        let finalizers_change = collected.iter().map(String::as_str).ne(meta::finalizers(object));
        if finalizers_change {
            let list = (!collected.is_empty()).then(|| collected.clone().into());
            metadata::set(meta::metadata_mut(&mut new), "finalizers", list);
        }
        let waits = subresource::namespace_terminating(&self.row.def, &mut new);
        let kept = crd::keeps(&self.row.def, &mut new, cx.now);
        let pending = !collected.is_empty() || waits || kept;
        match graceful {
            Some(seconds) if pending || seconds > 0 => Step::Mark(new),
            Some(_) => Step::MarkAndRemove(new),
            // These two end their deletion by themselves, and set nothing but its time.
            None if waits || kept => {
                if meta::deletion_timestamp(&new).is_none() {
                    let at = metadata::time(cx.now);
                    meta::metadata_mut(&mut new).insert("deletionTimestamp".to_owned(), at.into());
                }
                if new == *object { Step::Waiting } else { Step::Mark(new) }
            }
            None if pending => {
                mark_deleting(&mut new, cx.now);
                if new == *object { Step::Waiting } else { Step::Mark(new) }
            }
            None => Step::Remove,
        }
    }

    /// Graceful deletion of kinds that know it.
    fn grace(&self, now: Timestamp, options: &DeleteOptions, new: &mut Value) -> Grace {
        let requested = options.grace_period_seconds.map(|seconds| if seconds < 0 { 1 } else { seconds });
        let Some(seconds) = self.row.hooks.grace_period(new, requested) else { return Grace::None };
        let set = new.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64);
        if let Some(deleted) = meta::deletion_timestamp(new).map(str::to_owned) {
            let had = match set {
                None | Some(0) => return Grace::None,
                Some(had) => had.max(1),
            };
            return match requested {
                // A grace period may only get shorter.
                Some(shorter) if shorter < had => shorten(new, &deleted, had, shorter, now),
                _ => Grace::Pending,
            };
        }
        let metadata = meta::metadata_mut(new);
        let at = now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(now);
        metadata.insert("deletionTimestamp".to_owned(), metadata::time(at).into());
        metadata.insert("deletionGracePeriodSeconds".to_owned(), seconds.into());
        raise_generation(new);
        Grace::Seconds(seconds)
    }

    /// The finalizers with those of the garbage collector as the options want them.
    fn garbage_finalizers(&self, options: &DeleteOptions, object: &Value) -> Vec<String> {
        let had = meta::finalizers(object);
        let policy = self.row.garbage;
        let mut list: Vec<String> = had.iter().map(|f| (*f).to_owned()).collect();
        if policy == GarbagePolicy::Unsupported {
            return list;
        }
        let chosen = match (options.orphan_dependents, options.propagation_policy) {
            (Some(true), _) => Propagation::Orphan,
            (Some(false), _) => Propagation::Background,
            (None, Some(policy)) => policy,
            (None, None) if had.contains(&"orphan") => Propagation::Orphan,
            (None, None) if had.contains(&"foregroundDeletion") => Propagation::Foreground,
            (None, None) if policy == GarbagePolicy::OrphanDependents => Propagation::Orphan,
            (None, None) => Propagation::Background,
        };
        let wanted = match chosen {
            Propagation::Orphan => Some("orphan"),
            Propagation::Foreground => Some("foregroundDeletion"),
            Propagation::Background => None,
        };
        list.retain(|f| wanted == Some(f.as_str()) || (f != "orphan" && f != "foregroundDeletion"));
        if let Some(wanted) = wanted.filter(|wanted| !list.iter().any(|f| f == wanted)) {
            list.push(wanted.to_owned());
        }
        list
    }

    fn check_preconditions(&self, name: &str, options: &DeleteOptions, object: &Value) -> ApiResult<()> {
        let Some(wanted) = &options.preconditions else { return Ok(()) };
        let kind = self.row.named_in_errors();
        let resource = GroupResource::new(&kind.group, &kind.kind);
        let (uid, version) = (meta::uid(object), meta::resource_version(object));
        // The two kinds that finish their deletion by themselves check this by themselves.
        let own_check = match self.row.def.plural.as_str() {
            "namespaces" => Some("Precondition"),
            "customresourcedefinitions" => Some("precondition"),
            _ => None,
        };
        if let (Some(word), Some(wanted)) = (own_check, wanted.uid.as_deref().filter(|wanted| *wanted != uid))
        {
            let why = format!("{word} failed: UID in precondition: {wanted}, UID in object meta: {uid}");
            return Err(ApiError::conflict(&self.resource(), name, &why));
        }
        if let Some(wanted) = wanted.uid.as_deref().filter(|wanted| *wanted != uid) {
            let why = format!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). \
                 The object might have been deleted and then recreated"
            );
            return Err(ApiError::conflict(&resource, name, &why));
        }
        if let Some(wanted) = wanted.resource_version.as_deref().filter(|wanted| *wanted != version) {
            let why = format!(
                "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
                 ({version}). The object might have been modified"
            );
            return Err(ApiError::conflict(&resource, name, &why));
        }
        Ok(())
    }

    async fn admit_delete(
        &self,
        cx: &RequestContext,
        target: &Target,
        delete: &DeleteOptions,
        object: &Value,
    ) -> ApiResult<()> {
        if cx.admission.is_empty() {
            return Ok(());
        }
        let mut described = options(cx, "DeleteOptions");
        if let (Value::Object(to), Ok(Value::Object(from))) = (&mut described, serde_json::to_value(delete)) {
            to.extend(from);
        }
        let (kind, resource) = (self.row.working.clone(), self.row.def.gvr());
        let attributes = Attributes {
            operation: Operation::Delete,
            kind: &kind,
            resource: &resource,
            subresource: Part::Whole.name().unwrap_or_default(),
            namespace: target.namespace.as_deref().unwrap_or_default(),
            name: &target.name,
            old: Some(object),
            user: &cx.user,
            dry_run: cx.dry_run,
            options: &described,
            warnings: &cx.warnings,
            reinvocation: None,
        };
        cx.admission.admit_delete(&attributes).await?;
        cx.admission.validate(&attributes, None).await
    }

    fn answer_delete(&self, object: &Value, gone: bool) -> Deleted {
        if self.row.returns_deleted {
            let object = Object::served(&self.row, self.row.serve(object.clone()));
            return Deleted::Object { object: Box::new(object), gone };
        }
        let resource = self.resource();
        Deleted::Status(Box::new(Status::success(Some(StatusDetails {
            name: meta::name(object).to_owned(),
            group: resource.group,
            kind: resource.resource,
            uid: meta::uid(object).to_owned(),
            ..StatusDetails::default()
        }))))
    }

    /// Deletes what a list selects; the objects as they were.
    ///
    /// # Errors
    /// The first refusal; what came before it is deleted.
    pub async fn delete_collection(
        &self,
        cx: &RequestContext,
        namespace: Option<&str>,
        options: &DeleteOptions,
        list: &ListOptions,
    ) -> ApiResult<ObjectList> {
        let found = self.list(cx, namespace, list).await?;
        for item in &found.items {
            let object = item.to_value();
            let namespace = Some(meta::namespace(&object)).filter(|ns| !ns.is_empty());
            let target = Target::new(namespace, meta::name(&object));
            match Box::pin(self.delete(cx, &target, options)).await {
                Err(error) if !error.is(Reason::NotFound) => return Err(error),
                _ => {}
            }
        }
        Ok(found)
    }
}

enum Grace {
    /// The kind has none, or it is over.
    None,
    /// The object is marked with this much.
    Seconds(i64),
    /// It is running already.
    Pending,
}

/// Moves the deletion to where a shorter grace period puts it, but not into the past.
fn shorten(new: &mut Value, deleted: &str, had: i64, shorter: i64, now: Timestamp) -> Grace {
    let at = deleted.parse::<Timestamp>().unwrap_or(now);
    let at = at.checked_add(SignedDuration::from_secs(shorter - had)).unwrap_or(now);
    let (at, seconds) = match (at < now, shorter) {
        (true, 0) => (now, 0),
        (true, _) => (now, 1),
        (false, seconds) => (at, seconds),
    };
    let metadata = meta::metadata_mut(new);
    metadata.insert("deletionTimestamp".to_owned(), metadata::time(at).into());
    metadata.insert("deletionGracePeriodSeconds".to_owned(), seconds.into());
    Grace::Seconds(seconds)
}

fn raise_generation(object: &mut Value) {
    let generation = meta::generation(object);
    if generation > 0 {
        meta::metadata_mut(object).insert("generation".to_owned(), (generation + 1).into());
    }
}

/// Marks an object that only finalizers keep.
fn mark_deleting(object: &mut Value, now: Timestamp) {
    let at = meta::deletion_timestamp(object).map(str::to_owned);
    if at.is_none() {
        raise_generation(object);
    }
    let later = at.and_then(|at| at.parse::<Timestamp>().ok()).is_none_or(|at| at > now);
    let metadata = meta::metadata_mut(object);
    if later {
        metadata.insert("deletionTimestamp".to_owned(), metadata::time(now).into());
    }
    metadata.insert("deletionGracePeriodSeconds".to_owned(), 0.into());
}

/// Options that contradict each other.
fn check_options(options: &DeleteOptions) -> ApiResult<()> {
    if options.orphan_dependents.is_none() || options.propagation_policy.is_none() {
        return Ok(());
    }
    let field = FieldPath::new("propagationPolicy");
    let shown = serde_json::to_value(options.propagation_policy).unwrap_or_default();
    let why = "orphanDependents and deletionPropagation cannot be both set";
    let errors: FieldErrors = vec![FieldError::invalid(&field, shown, why)];
    Err(ApiError::invalid(&GroupVersionKind::new("meta.k8s.io", "v1", "DeleteOptions"), "", &errors))
}
