//! The shared caches: each resource is followed once, whoever needs it.

use copepod_client::resources as r;
use copepod_client::{Client, Delta, Index, Informer, InformerConfig, Meta, ResourceRef};
use tokio_util::sync::CancellationToken;

use crate::context::Follower;
use crate::views as v;

/// Takes metadata, and whether the object is gone.
pub(crate) type MetaFeed = Box<dyn Fn(&Meta, bool) + Send + Sync>;

macro_rules! caches {
    (
        $($field:ident: $view:ty = $resource:ident $(, $option:ident)?;)*
        $($(#[$doc:meta])* index $index:ident of $indexed:ident by $values:expr;)*
    ) => {
        /// One informer per resource.
        #[derive(Debug)]
        pub struct Caches {
            $(
                #[doc = concat!("`", stringify!($field), "`.")]
                pub $field: Informer<$view>,
            )*
            $(
                $(#[$doc])*
                pub $index: Index,
            )*
        }

        impl Caches {
            /// Empty caches.
            #[must_use]
            pub fn new() -> Self {
                $(let $field = Informer::new(InformerConfig::all(r::$resource)$(.$option())?);)*
                $(let $index = $indexed.add_index($values);)*
                Self { $($field,)* $($index,)* }
            }

            /// Starts to follow all of them.
            pub fn start(&self, client: &Client, shutdown: &CancellationToken) {
                $(self.$field.start(client, shutdown);)*
            }

            /// Returns once all are filled.
            pub async fn synced(&self) {
                $(self.$field.synced().await;)*
            }

            /// Calls `feed` with the metadata of every object of a resource there is a cache of, now and whenever it
            /// changes; the flag tells that the object is gone. Gives `feed` back when there is no such cache.
            pub(crate) fn follow_meta(&self, resource: &ResourceRef, feed: MetaFeed) -> Option<MetaFeed> {
                $(if *resource == r::$resource {
                    self.$field.on_change(move |_, delta| {
                        feed(v::HasMeta::meta(&**delta.object()), matches!(delta, Delta::Deleted(_)));
                    });
                    return None;
                })*
                Some(feed)
            }

            /// The cache of a resource.
            pub(crate) fn follower(&self, resource: &ResourceRef) -> Option<&dyn Follower> {
                $(if *resource == r::$resource {
                    return Some(&self.$field);
                })*
                None
            }
        }
    };
}

fn owner<T: v::HasMeta>(object: &T) -> Vec<String> {
    object.meta().controller().map(|o| o.uid.clone()).into_iter().collect()
}

caches! {
    pods: v::Pod = PODS;
    nodes: v::Node = NODES;
    leases: v::Lease = LEASES;
    namespaces: v::Namespace = NAMESPACES;
    service_accounts: v::MetaOnly = SERVICE_ACCOUNTS, metadata_only;
    replica_sets: v::ReplicaSet = REPLICA_SETS;
    replication_controllers: v::ReplicationController = REPLICATION_CONTROLLERS;
    deployments: v::Deployment = DEPLOYMENTS;
    daemon_sets: v::DaemonSet = DAEMON_SETS;
    stateful_sets: v::StatefulSet = STATEFUL_SETS;
    controller_revisions: v::ControllerRevision = CONTROLLER_REVISIONS;
    jobs: v::Job = JOBS;
    cron_jobs: v::CronJob = CRON_JOBS;
    services: v::Service = SERVICES;
    endpoint_slices: v::EndpointSlice = ENDPOINT_SLICES;
    endpoints: v::Endpoints = ENDPOINTS;
    budgets: v::PodDisruptionBudget = POD_DISRUPTION_BUDGETS;
    claims: v::Claim = PERSISTENT_VOLUME_CLAIMS;
    volumes: v::PersistentVolume = PERSISTENT_VOLUMES;
    classes: v::StorageClass = STORAGE_CLASSES;
    /// Pods by the UID of their managing owner.
    index pods_by_owner of pods by owner;
    /// Pods by node.
    index pods_by_node of pods by |pod: &v::Pod| vec![pod.spec.node_name.to_string()];
    /// EndpointSlices by the key of their Service.
    index slices_by_service of endpoint_slices by |slice: &v::EndpointSlice| {
        let meta = &slice.metadata;
        vec![format!("{}/{}", meta.namespace, meta.label(crate::slices::SERVICE_NAME))]
    };
    /// ReplicaSets by the UID of their managing owner.
    index replica_sets_by_owner of replica_sets by owner;
}

impl Default for Caches {
    fn default() -> Self {
        Self::new()
    }
}
