//! The built-in resources our components talk about, as constants.

use crate::ResourceRef;

macro_rules! resources {
    ($($name:ident = $scope:ident($group:literal, $version:literal, $plural:literal, $kind:literal);)*) => {
        $(
            #[doc = concat!("`", $plural, "` of group `", $group, "`, version `", $version, "`.")]
            pub const $name: ResourceRef = ResourceRef::$scope($group, $version, $plural, $kind);
        )*
    };
}

resources! {
    BINDINGS = namespaced("", "v1", "bindings", "Binding");
    CONFIG_MAPS = namespaced("", "v1", "configmaps", "ConfigMap");
    ENDPOINTS = namespaced("", "v1", "endpoints", "Endpoints");
    EVENTS = namespaced("", "v1", "events", "Event");
    LIMIT_RANGES = namespaced("", "v1", "limitranges", "LimitRange");
    NAMESPACES = cluster("", "v1", "namespaces", "Namespace");
    NODES = cluster("", "v1", "nodes", "Node");
    PERSISTENT_VOLUMES = cluster("", "v1", "persistentvolumes", "PersistentVolume");
    PERSISTENT_VOLUME_CLAIMS = namespaced("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim");
    PODS = namespaced("", "v1", "pods", "Pod");
    REPLICATION_CONTROLLERS = namespaced("", "v1", "replicationcontrollers", "ReplicationController");
    RESOURCE_QUOTAS = namespaced("", "v1", "resourcequotas", "ResourceQuota");
    SECRETS = namespaced("", "v1", "secrets", "Secret");
    SERVICES = namespaced("", "v1", "services", "Service");
    SERVICE_ACCOUNTS = namespaced("", "v1", "serviceaccounts", "ServiceAccount");
    CONTROLLER_REVISIONS = namespaced("apps", "v1", "controllerrevisions", "ControllerRevision");
    DAEMON_SETS = namespaced("apps", "v1", "daemonsets", "DaemonSet");
    DEPLOYMENTS = namespaced("apps", "v1", "deployments", "Deployment");
    REPLICA_SETS = namespaced("apps", "v1", "replicasets", "ReplicaSet");
    STATEFUL_SETS = namespaced("apps", "v1", "statefulsets", "StatefulSet");
    SUBJECT_ACCESS_REVIEWS = cluster("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview");
    TOKEN_REVIEWS = cluster("authentication.k8s.io", "v1", "tokenreviews", "TokenReview");
    CRON_JOBS = namespaced("batch", "v1", "cronjobs", "CronJob");
    JOBS = namespaced("batch", "v1", "jobs", "Job");
    CERTIFICATE_SIGNING_REQUESTS =
        cluster("certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest");
    CLUSTER_TRUST_BUNDLES =
        cluster("certificates.k8s.io", "v1", "clustertrustbundles", "ClusterTrustBundle");
    LEASES = namespaced("coordination.k8s.io", "v1", "leases", "Lease");
    ENDPOINT_SLICES = namespaced("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice");
    EVENTS_V1 = namespaced("events.k8s.io", "v1", "events", "Event");
    NETWORK_POLICIES = namespaced("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy");
    RUNTIME_CLASSES = cluster("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass");
    POD_DISRUPTION_BUDGETS = namespaced("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget");
    CLUSTER_ROLES = cluster("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole");
    CLUSTER_ROLE_BINDINGS =
        cluster("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding");
    PRIORITY_CLASSES = cluster("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass");
    CUSTOM_RESOURCE_DEFINITIONS =
        cluster("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition");
    RESOURCE_CLAIMS = namespaced("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim");
    DEVICE_CLASSES = cluster("resource.k8s.io", "v1", "deviceclasses", "DeviceClass");
    HORIZONTAL_POD_AUTOSCALERS =
        namespaced("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler");
    SERVICE_CIDRS = cluster("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR");
    IP_ADDRESSES = cluster("networking.k8s.io", "v1", "ipaddresses", "IPAddress");
    POD_CERTIFICATE_REQUESTS =
        namespaced("certificates.k8s.io", "v1", "podcertificaterequests", "PodCertificateRequest");
    STORAGE_VERSION_MIGRATIONS =
        cluster("storagemigration.k8s.io", "v1", "storageversionmigrations", "StorageVersionMigration");
    CSI_DRIVERS = cluster("storage.k8s.io", "v1", "csidrivers", "CSIDriver");
    CSI_NODES = cluster("storage.k8s.io", "v1", "csinodes", "CSINode");
    STORAGE_CLASSES = cluster("storage.k8s.io", "v1", "storageclasses", "StorageClass");
    VOLUME_ATTRIBUTES_CLASSES = cluster("storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass");
    VOLUME_ATTACHMENTS = cluster("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment");
}
