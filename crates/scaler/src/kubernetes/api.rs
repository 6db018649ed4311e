//! The part of the API server of Kubernetes that is needed: a StatefulSet is read and patched, a pod is looked at.
//!
//! What answers there may fail, hang or say what makes no sense: each answer has a time and a length.

use crate::Failed;
use crate::run::one_line;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use ureq::http::StatusCode;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// Where a pod finds the API server.
const IN_CLUSTER: &str = "https://kubernetes.default.svc";

/// Where a pod finds its token, the authority of the API server, and its namespace.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Longest answer that is read, in bytes. Kubernetes keeps no object that is longer.
pub(super) const ANSWER_LEN_MAX: usize = 3 << 20;

/// Largest ordinal: numbers of pods are 32 bits with a sign.
const ORDINAL_MAX: u32 = i32::MAX as u32;

/// Longest file of a token or of certificates, in bytes.
const FILE_LEN_MAX: u64 = 1 << 20;

/// What an API server is reached and known by. Files are read anew for each call, because Kubernetes replaces tokens each hour.
#[derive(Clone, Debug)]
pub struct ApiServer {
    /// `https://HOST[:PORT]`; `http://` for one on this machine that needs no token, as `kubectl proxy` is.
    pub url: String,
    /// The namespace of the StatefulSet.
    pub namespace: String,
    /// File with the token to show.
    pub token_file: PathBuf,
    /// File with the certificates of the authority, in PEM.
    pub ca_file: PathBuf,
}

impl ApiServer {
    /// At this address, with what a pod finds in its service account where nothing else is said.
    ///
    /// # Errors
    /// No namespace is said, and there is no service account that has one.
    pub fn new(
        url: Option<String>,
        namespace: Option<String>,
        token_file: Option<PathBuf>,
        ca_file: Option<PathBuf>,
    ) -> Result<Self, Failed> {
        let account = Path::new(SERVICE_ACCOUNT);
        let namespace = match namespace {
            Some(namespace) => namespace,
            None => read_text(&account.join("namespace"))?.trim().to_owned(),
        };
        Ok(ApiServer {
            url: url.unwrap_or_else(|| IN_CLUSTER.to_owned()),
            namespace,
            token_file: token_file.unwrap_or_else(|| account.join("token")),
            ca_file: ca_file.unwrap_or_else(|| account.join("ca.crt")),
        })
    }
}

/// A StatefulSet of an API server, and its pods.
#[derive(Debug)]
pub(super) struct Api {
    server: ApiServer,
    name: String,
    /// Longest wait for an answer, connecting included.
    patience: Duration,
}

/// What is read of a StatefulSet.
#[derive(Debug, Deserialize)]
pub(super) struct StatefulSet {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default = "one")]
    replicas: u32,
    service_name: Option<String>,
    #[serde(default)]
    ordinals: Ordinals,
}

#[derive(Debug, Default, Deserialize)]
struct Ordinals {
    #[serde(default)]
    start: u32,
}

fn one() -> u32 {
    1
}

impl StatefulSet {
    pub(super) fn replicas(&self) -> u32 {
        self.spec.replicas
    }

    /// The ordinal of the next pod that it would have; at most [`ORDINAL_MAX`].
    pub(super) fn end(&self) -> u32 {
        self.spec.ordinals.start.saturating_add(self.spec.replicas)
    }

    /// Whether it has a pod of this ordinal, or will.
    pub(super) fn has(&self, ordinal: u32) -> bool {
        (self.spec.ordinals.start..self.end()).contains(&ordinal)
    }

    pub(super) fn service(&self) -> Option<&str> {
        let service = self.spec.service_name.as_deref();
        service.filter(|it| !it.is_empty())
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.get(key).map(String::as_str)
    }
}

/// What is read of a pod.
#[derive(Debug, Deserialize)]
pub(super) struct Pod {
    metadata: PodMetadata,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodMetadata {
    deletion_timestamp: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct PodStatus {
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Debug, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl Pod {
    /// Whether it serves, and is to stay.
    pub(super) fn is_ready(&self) -> bool {
        let mut conditions = self.status.conditions.iter();
        self.metadata.deletion_timestamp.is_none()
            && conditions.any(|it| it.kind == "Ready" && it.status == "True")
    }
}

/// What has come of a patch.
#[derive(Debug)]
pub(super) enum Patched {
    /// This is the StatefulSet now.
    Done(StatefulSet),
    /// Somebody has changed it since it was read; nothing was done.
    Outdated,
}

impl Api {
    pub(super) fn new(server: ApiServer, name: &str, patience: Duration) -> Result<Self, Failed> {
        if !["https://", "http://"]
            .iter()
            .any(|it| server.url.starts_with(it))
        {
            return Err(Failed::Unheard {
                server: server.url,
                why: "its URL begins with https:// or http://".to_owned(),
            });
        }
        Ok(Api {
            server,
            name: name.to_owned(),
            patience,
        })
    }

    #[cfg(test)]
    pub(super) fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    pub(super) fn namespace(&self) -> &str {
        &self.server.namespace
    }

    /// The name of a pod.
    pub(super) fn pod(&self, ordinal: u32) -> String {
        format!("{}-{ordinal}", self.name)
    }

    pub(super) fn stateful_set(&self) -> Result<StatefulSet, Failed> {
        let (status, said) = self.ask("GET", &self.stateful_set_path(), None)?;
        let set: StatefulSet = self.read(status, &said)?;
        match set.end() <= ORDINAL_MAX {
            true => Ok(set),
            false => Err(self.nonsense(format!("ordinals up to {}", set.end()))),
        }
    }

    /// Changes the number of replicas and the annotation together, if the StatefulSet is still what was read.
    pub(super) fn patch(
        &self,
        read: &StatefulSet,
        replicas: u32,
        ordinals: &BTreeMap<String, u32>,
    ) -> Result<Patched, Failed> {
        let patch = json!({
            "metadata": {
                "resourceVersion": read.metadata.resource_version,
                "annotations": { super::ANNOTATION: json!(ordinals).to_string() },
            },
            "spec": { "replicas": replicas },
        });
        let path = self.stateful_set_path();
        let (status, said) = self.ask("PATCH", &path, Some(patch.to_string()))?;
        match status {
            StatusCode::CONFLICT => Ok(Patched::Outdated),
            _ => self.read(status, &said).map(Patched::Done),
        }
    }

    /// A pod, if there is one.
    pub(super) fn look_at_pod(&self, ordinal: u32) -> Result<Option<Pod>, Failed> {
        let (namespace, pod) = (&self.server.namespace, self.pod(ordinal));
        let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}");
        let (status, said) = self.ask("GET", &path, None)?;
        match status {
            StatusCode::NOT_FOUND => Ok(None),
            _ => self.read(status, &said).map(Some),
        }
    }

    pub(super) fn nonsense(&self, what: String) -> Failed {
        let program = self.program();
        Failed::Nonsense { program, what }
    }

    pub(super) fn too_slow(&self, within: Duration) -> Failed {
        let program = self.program();
        Failed::TooSlow { program, within }
    }

    fn program(&self) -> PathBuf {
        PathBuf::from(&self.server.url)
    }

    fn stateful_set_path(&self) -> String {
        let namespace = &self.server.namespace;
        let name = &self.name;
        format!("/apis/apps/v1/namespaces/{namespace}/statefulsets/{name}")
    }

    fn read<T: DeserializeOwned>(&self, status: StatusCode, said: &[u8]) -> Result<T, Failed> {
        if !status.is_success() {
            let told = serde_json::from_slice(said).map(|Refusal { message }| message);
            return Err(Failed::Refused {
                server: self.server.url.clone(),
                status: status.as_u16(),
                told: one_line(told.as_deref().map_or(said, str::as_bytes)),
            });
        }
        serde_json::from_slice(said).map_err(|error| self.nonsense(error.to_string()))
    }

    fn ask(
        &self,
        method: &str,
        path: &str,
        patch: Option<String>,
    ) -> Result<(StatusCode, Vec<u8>), Failed> {
        let agent = self.agent()?;
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.server.url.trim_end_matches('/')))
            .header("accept", "application/json");
        if self.is_secure() {
            let token = read_text(&self.server.token_file)?;
            request = request.header("authorization", format!("Bearer {}", token.trim()));
        }
        if patch.is_some() {
            request = request.header("content-type", "application/merge-patch+json");
        }
        let unheard = |why: ureq::Error| Failed::Unheard {
            server: self.server.url.clone(),
            why: one_line(why.to_string().as_bytes()),
        };
        let answer = match patch {
            Some(patch) => request.body(patch).map(|request| agent.run(request)),
            None => request.body(()).map(|request| agent.run(request)),
        };
        let mut answer = answer
            .map_err(|why| unheard(why.into()))?
            .map_err(unheard)?;
        let status = answer.status();
        let body = answer.body_mut().with_config();
        match body.limit(ANSWER_LEN_MAX as u64).read_to_vec() {
            Ok(said) => Ok((status, said)),
            Err(ureq::Error::BodyExceedsLimit(limit)) => {
                Err(self.nonsense(format!("its answer is longer than {limit} bytes")))
            }
            Err(why) => Err(unheard(why)),
        }
    }

    fn is_secure(&self) -> bool {
        !self.server.url.starts_with("http://")
    }

    /// Follows nobody elsewhere, and goes straight to the API server whatever the environment says about proxies.
    fn agent(&self) -> Result<ureq::Agent, Failed> {
        let mut config = ureq::Agent::config_builder()
            .timeout_global(Some(self.patience))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None);
        if self.is_secure() {
            let known = certificates(&self.server.ca_file)?;
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let tls = TlsConfig::builder()
                .root_certs(RootCerts::new_with_certs(&known))
                .unversioned_rustls_crypto_provider(provider);
            config = config.tls_config(tls.build());
        }
        Ok(config.build().new_agent())
    }
}

/// What Kubernetes says of why not.
#[derive(Deserialize)]
struct Refusal {
    message: String,
}

fn read_text(path: &Path) -> Result<String, Failed> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(FILE_LEN_MAX).read_to_string(&mut text));
    read.map_err(|source| Failed::Io {
        action: "read",
        path: path.to_owned(),
        source,
    })?;
    Ok(text)
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, Failed> {
    let text = read_text(path)?;
    let bad = |what: String| Failed::Io {
        action: "use",
        path: path.to_owned(),
        source: io::Error::new(io::ErrorKind::InvalidData, what),
    };
    let mut found = Vec::new();
    for item in parse_pem(text.as_bytes()) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| bad(error.to_string()))? {
            found.push(certificate);
        }
    }
    match found.is_empty() {
        true => Err(bad("there is no certificate in it".to_owned())),
        false => Ok(found),
    }
}
