//! A whole cluster: a coordinator, servers that register with it, and proxies in front.

use std::time::Duration;

use crate::{Client, EXIT_DEADLINE, Process, Signal, evenkeel, http, poll_until};

/// How long a cluster may take from its first process to its first answer through every proxy.
const SERVING_DEADLINE: Duration = Duration::from_secs(60);

/// What a [`Cluster`] consists of.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// Servers, named `s1`, `s2`, …
    pub servers: usize,
    /// Workers of each server.
    pub threads: usize,
    /// Proxies.
    pub proxies: usize,
    /// What is changed of the cluster's settings at its start, as the coordinator takes it: a JSON object.
    pub settings: Option<String>,
    /// Further arguments of every server.
    pub server_args: Vec<String>,
    /// Further arguments of every proxy.
    pub proxy_args: Vec<String>,
    /// Further arguments of the coordinator.
    pub coordinator_args: Vec<String>,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        ClusterOptions {
            servers: 3,
            threads: 2,
            proxies: 1,
            settings: None,
            server_args: Vec::new(),
            proxy_args: Vec::new(),
            coordinator_args: Vec::new(),
        }
    }
}

impl ClusterOptions {
    /// A cluster in which nobody dies: who is late, because the machine is busy, is not taken for one who has failed.
    pub fn nobody_dies() -> Self {
        let coordinator_args = ["--silent-ms", "10000"].map(str::to_owned).to_vec();
        ClusterOptions {
            coordinator_args,
            ..ClusterOptions::default()
        }
        .with_server_args(&["--test-endless-lease"])
        .with_proxy_args(&evenkeel::LONG_TIMEOUTS)
    }

    /// The same with these settings.
    pub fn with_settings(mut self, settings: &str) -> Self {
        self.settings = Some(settings.to_owned());
        self
    }

    /// The same with further arguments of every server.
    pub fn with_server_args(mut self, more: &[&str]) -> Self {
        self.server_args
            .extend(more.iter().map(|&it| it.to_owned()));
        self
    }

    /// The same with further arguments of every proxy.
    pub fn with_proxy_args(mut self, more: &[&str]) -> Self {
        self.proxy_args.extend(more.iter().map(|&it| it.to_owned()));
        self
    }
}

/// Running processes, all ended when this is dropped.
pub struct Cluster {
    /// The coordinator.
    pub coordinator: Process,
    /// The servers, in the order of their names.
    pub servers: Vec<Process>,
    /// The proxies.
    pub proxies: Vec<Process>,
    options: ClusterOptions,
    folders: Vec<tempfile::TempDir>,
}

impl Cluster {
    /// Starts all processes and returns when every proxy serves.
    ///
    /// # Panics
    /// When a process does not become ready, or the cluster does not serve in time.
    pub fn start(options: ClusterOptions) -> Cluster {
        let coordinator = spawn_coordinator("127.0.0.1:0", &options);
        let mut cluster = Cluster {
            coordinator,
            servers: Vec::new(),
            proxies: Vec::new(),
            options,
            folders: Vec::new(),
        };
        if let Some(settings) = &cluster.options.settings {
            cluster.change_settings(settings);
        }
        for index in 0..cluster.options.servers {
            let server = cluster.spawn_server(index);
            cluster.servers.push(server);
        }
        poll_until(
            SERVING_DEADLINE,
            "the coordinator to be ready with all servers",
            || matches!(cluster.http_get("/readyz"), Ok((200, _))).then_some(()),
        );
        for _ in 0..cluster.options.proxies {
            let proxy = cluster.spawn_proxy("127.0.0.1:0");
            cluster.proxies.push(proxy);
        }
        cluster.wait_until_serving();
        cluster
    }

    /// Where the coordinator answers, as members are told.
    pub fn coordinator_url(&self) -> String {
        format!("http://{}", self.coordinator.address())
    }

    /// `GET` from the coordinator.
    pub fn http_get(&self, path: &str) -> std::io::Result<(u16, String)> {
        http::get(self.coordinator.address(), path)
    }

    /// Changes settings of the cluster, as the coordinator takes them: a JSON object.
    ///
    /// # Panics
    /// When the coordinator does not take them.
    pub fn change_settings(&self, change: &str) {
        let put = http::put_json(self.coordinator.address(), "/api/v1/settings", change);
        let (status, body) = put.expect("the coordinator answers");
        assert_eq!(status, 200, "{change}: {body}");
    }

    /// A new connection to proxy 0.
    pub fn proxy_client(&self) -> Client {
        Client::connect(self.proxies[0].address())
    }

    /// Stores an item through proxy 0, again and again until it is stored: the owner of its key may be dead, or late.
    pub fn store(&self, key: &str, value: &[u8]) {
        poll_until(SERVING_DEADLINE, "a key that can be written", || {
            // The proxy may have given up on a connection before.
            let mut client = Client::try_connect(self.proxies[0].address()).ok()?;
            let said = client.try_set(key, 0, 0, value).ok()?;
            (said == "STORED").then_some(())
        });
    }

    /// A new connection to the ordinary port of server `index`.
    pub fn server_client(&self, index: usize) -> Client {
        Client::connect(self.servers[index].address())
    }

    /// Kills server `index` and starts it again, empty, under its name, on a new port.
    pub fn restart_server(&mut self, index: usize) {
        self.servers[index].kill();
        self.servers[index] = self.spawn_server(index);
    }

    /// Asks server `index` to end, waits until it has, and starts it again, empty, under its name, on a new port.
    pub fn restart_server_politely(&mut self, index: usize) {
        self.servers[index].signal(Signal::Terminate);
        self.servers[index].wait(EXIT_DEADLINE);
        self.servers[index] = self.spawn_server(index);
    }

    /// Kills proxy `index` and starts it again on its port.
    pub fn restart_proxy(&mut self, index: usize) {
        let address = self.proxies[index].address().to_string();
        self.proxies[index].kill();
        self.proxies[index] = self.spawn_proxy(&address);
    }

    /// Kills the coordinator and starts it again at its address. It goes on from what it has saved if it was given a
    /// file for it (`--state`); otherwise it knows nothing.
    pub fn restart_coordinator(&mut self) {
        let address = self.coordinator.address().to_string();
        self.coordinator.kill();
        let mut options = self.options.clone();
        if !options.coordinator_args.iter().any(|it| it == "--state") {
            // Not the default place, which outlives the test.
            let folder = tempfile::tempdir().expect("a temporary folder");
            let state = folder.path().join("state").display().to_string();
            options
                .coordinator_args
                .extend(["--state".to_owned(), state]);
            self.folders.push(folder);
        }
        self.coordinator = spawn_coordinator(&address, &options);
    }

    /// Waits until every proxy executes deletes of keys that nobody stores. A get would not tell: of a server that does
    /// not know the map yet, or is gone, it is a miss as well.
    pub fn wait_until_serving(&self) {
        for proxy in &self.proxies {
            poll_until(SERVING_DEADLINE, "a proxy that serves", || {
                let mut client = Client::try_connect(proxy.address()).ok()?;
                // So many keys that most likely every worker is asked.
                (0..64)
                    .map(|n| client.try_command(&format!("delete readiness:{n}")))
                    .all(|answer| answer.is_ok_and(|line| line == "NOT_FOUND"))
                    .then_some(())
            });
        }
    }

    fn spawn_server(&self, index: usize) -> Process {
        let (url, threads) = (self.coordinator_url(), self.options.threads.to_string());
        let name = format!("s{}", index + 1);
        let mut arguments = vec!["-t", &threads, "--coordinator", &url, "--name", &name];
        arguments.extend(self.options.server_args.iter().map(String::as_str));
        evenkeel::server(&arguments)
    }

    fn spawn_proxy(&self, address: &str) -> Process {
        let url = self.coordinator_url();
        let mut arguments = vec!["--coordinator", url.as_str()];
        arguments.extend(self.options.proxy_args.iter().map(String::as_str));
        evenkeel::proxy_at(address, &arguments)
    }
}

fn spawn_coordinator(address: &str, options: &ClusterOptions) -> Process {
    let initial_servers = options.servers.to_string();
    let mut arguments = vec!["--initial-servers", &initial_servers];
    arguments.extend(options.coordinator_args.iter().map(String::as_str));
    evenkeel::coordinator_at(address, &arguments)
}
