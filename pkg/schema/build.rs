//! With the feature `descriptions`: packs the API's documentation, as the k8s-openapi crate carries it, into one
//! compressed file that `kubectl explain` is served from. One line a definition or field: name, tab, text.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "descriptions")]
    descriptions::pack();
}

#[cfg(feature = "descriptions")]
mod descriptions {
    use std::{collections::BTreeMap, env, fs, io::Write as _, path::PathBuf};

    use flate2::{Compression, write::DeflateEncoder};
    use schemars::{SchemaGenerator, generate::SchemaSettings};
    use serde_json::Value;

    /// Registers kinds; what they refer to follows.
    macro_rules! register {
        ($generator:ident, $($module:path => [$($kind:ident),* $(,)?],)*) => {$({
            use $module as group;
            $($generator.subschema_for::<group::$kind>();)*
        })*};
    }

    fn register(generator: &mut SchemaGenerator) {
        register!(generator,
            k8s_openapi::api::admissionregistration::v1 => [MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration],
            k8s_openapi::api::apps::v1 => [ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet],
            k8s_openapi::api::authentication::v1 => [SelfSubjectReview, TokenReview, TokenRequest],
            k8s_openapi::api::authorization::v1 => [LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview],
            k8s_openapi::api::autoscaling::v1 => [HorizontalPodAutoscaler, Scale],
            k8s_openapi::api::autoscaling::v2 => [HorizontalPodAutoscaler],
            k8s_openapi::api::batch::v1 => [CronJob, Job],
            k8s_openapi::api::certificates::v1 => [CertificateSigningRequest, ClusterTrustBundle, PodCertificateRequest],
            k8s_openapi::api::coordination::v1 => [Lease],
            k8s_openapi::api::core::v1 => [ComponentStatus, ConfigMap, Endpoints, Event, LimitRange, Namespace, Node, PersistentVolumeClaim, PersistentVolume, Pod, PodTemplate, ReplicationController, ResourceQuota, Secret, ServiceAccount, Service, Binding],
            k8s_openapi::api::discovery::v1 => [EndpointSlice],
            k8s_openapi::api::events::v1 => [Event],
            k8s_openapi::api::flowcontrol::v1 => [FlowSchema, PriorityLevelConfiguration],
            k8s_openapi::api::networking::v1 => [IngressClass, Ingress, IPAddress, NetworkPolicy, ServiceCIDR],
            k8s_openapi::api::node::v1 => [RuntimeClass],
            k8s_openapi::api::policy::v1 => [PodDisruptionBudget, Eviction],
            k8s_openapi::api::rbac::v1 => [ClusterRoleBinding, ClusterRole, RoleBinding, Role],
            k8s_openapi::api::resource::v1 => [DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice],
            k8s_openapi::api::scheduling::v1 => [PriorityClass],
            k8s_openapi::api::storage::v1 => [CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment, VolumeAttributesClass],
            k8s_openapi::api::storagemigration::v1 => [StorageVersionMigration],
            k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 => [CustomResourceDefinition],
            k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1 => [APIService],
        );
        generator.subschema_for::<k8s_openapi::apimachinery::pkg::apis::meta::v1::DeleteOptions>();
        generator.subschema_for::<k8s_openapi::apimachinery::pkg::apis::meta::v1::Status>();
        generator.subschema_for::<k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta>();
    }

    /// Writes `descriptions.deflate` into the build's output folder.
    pub(super) fn pack() {
        let mut generator = SchemaSettings::openapi3().into_generator();
        register(&mut generator);
        let mut lines = BTreeMap::new();
        for (model, schema) in generator.take_definitions(true) {
            collect(&model, &schema, &mut lines);
        }
        let text: String =
            lines.iter().map(|(name, text)| format!("{name}\t{}\n", text.replace('\n', "\u{1}"))).collect();
        let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(text.as_bytes()).expect("a Vec takes all writes");
        let packed = encoder.finish().expect("a Vec takes all writes");
        fs::write(folder.join("descriptions.deflate"), packed).expect("OUT_DIR is writable");
    }

    fn collect(model: &str, schema: &Value, lines: &mut BTreeMap<String, String>) {
        let mut put = |name: String, schema: &Value| {
            if let Some(text) = schema.get("description").and_then(Value::as_str) {
                lines.insert(name, text.to_owned());
            }
        };
        put(model.to_owned(), schema);
        for (field, schema) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            put(format!("{model}/{field}"), schema);
        }
    }
}
