//! The coordinator's API for programs that look on: blocking, one call at a time.

use evenkeel_policy::hot_keys::shared::SharedCounts;
use evenkeel_policy::placement::map::ClusterMap;

use crate::api::{HotKeysReport, MapEvent, ProxiesView, ServersView, Settings};
use crate::endpoint::{BadEndpoint, CallError, Endpoint, agent};
use crate::http::EventsBody;

/// A client of one coordinator. Every call takes at most a second.
#[derive(Debug)]
pub struct ApiClient {
    endpoint: Endpoint,
    agent: ureq::Agent,
}

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// Nobody answered in time. May work later.
    #[error("coordinator {endpoint} cannot be reached: {cause}")]
    Unreachable {
        /// Who was asked.
        endpoint: String,
        /// What went wrong.
        cause: String,
    },
    /// The coordinator answered with an error.
    #[error("coordinator {endpoint} refuses: {message} ({reason})")]
    Refused {
        /// Who was asked.
        endpoint: String,
        /// HTTP status.
        status: u16,
        /// One of the API's words.
        reason: String,
        /// One line for people.
        message: String,
    },
    /// The answer makes no sense: it is no coordinator, or one of another version.
    #[error("coordinator {endpoint} gave an answer that makes no sense: {cause}")]
    BadAnswer {
        /// Who was asked.
        endpoint: String,
        /// What is wrong with it.
        cause: String,
    },
}

/// Why a call has no result, or nothing.
pub type ClientResult<T> = Result<T, ClientError>;

impl ApiClient {
    /// A client of the coordinator at `host:port` or `http://host:port`. Does not connect yet.
    ///
    /// # Errors
    ///
    /// The text is no address.
    pub fn new(address: &str) -> Result<Self, BadEndpoint> {
        Ok(ApiClient {
            endpoint: Endpoint::parse(address)?,
            agent: agent(),
        })
    }

    /// Whether a map has been made and saved. An error says why not.
    ///
    /// # Errors
    ///
    /// It cannot be reached, or has no map yet (`no_map`).
    pub fn ready(&self) -> ClientResult<()> {
        // The map is there exactly when /readyz says so, and its absence has the same words.
        self.get::<ClusterMap>("/api/v1/map").map(|_| ())
    }

    /// The newest map.
    ///
    /// # Errors
    ///
    /// It cannot be reached, or has no map yet (`no_map`).
    pub fn map(&self) -> ClientResult<ClusterMap> {
        self.get("/api/v1/map")
    }

    /// All servers that ever registered.
    ///
    /// # Errors
    ///
    /// It cannot be reached.
    pub fn servers(&self) -> ClientResult<ServersView> {
        self.get("/api/v1/servers")
    }

    /// All proxies that are members.
    ///
    /// # Errors
    ///
    /// It cannot be reached.
    pub fn proxies(&self) -> ClientResult<ProxiesView> {
        self.get("/api/v1/proxies")
    }

    /// The last map changes, oldest first.
    ///
    /// # Errors
    ///
    /// It cannot be reached.
    pub fn events(&self) -> ClientResult<Vec<MapEvent>> {
        Ok(self.get::<EventsBody>("/api/v1/events")?.events)
    }

    /// The operator's choices.
    ///
    /// # Errors
    ///
    /// It cannot be reached.
    pub fn settings(&self) -> ClientResult<Settings> {
        self.get("/api/v1/settings")
    }

    /// Changes the operator's choices; returns what holds from now on. Members learn it with their
    /// next heartbeats.
    ///
    /// # Errors
    ///
    /// It cannot be reached, or cannot save the change.
    pub fn put_settings(&self, settings: Settings) -> ClientResult<Settings> {
        let body = serde_json::to_vec(&settings)
            .map_err(|error| self.error(CallError::BadAnswer(error.to_string())))?;
        self.endpoint
            .put(&self.agent, "/api/v1/settings", &body)
            .map_err(|error| self.error(error))
    }

    /// Tells what a proxy has counted of the keys of a pool; returns what all have.
    ///
    /// # Errors
    ///
    /// It cannot be reached, or has heard of too many proxies (`too_many_proxies`).
    pub fn share_hot_keys(&self, report: &HotKeysReport) -> ClientResult<SharedCounts> {
        let body = serde_json::to_vec(report)
            .map_err(|error| self.error(CallError::BadAnswer(error.to_string())))?;
        self.endpoint
            .post(&self.agent, "/api/v1/hot-keys", &body)
            .map_err(|error| self.error(error))
    }

    fn get<T: serde::de::DeserializeOwned>(&self, path: &str) -> ClientResult<T> {
        self.endpoint
            .get(&self.agent, path)
            .map_err(|error| self.error(error))
    }

    fn error(&self, error: CallError) -> ClientError {
        let endpoint = self.endpoint.to_string();
        match error {
            CallError::Unreachable(cause) => ClientError::Unreachable { endpoint, cause },
            CallError::BadAnswer(cause) => ClientError::BadAnswer { endpoint, cause },
            CallError::Refused {
                status,
                reason,
                message,
            } => ClientError::Refused {
                endpoint,
                status,
                reason,
                message,
            },
        }
    }
}
