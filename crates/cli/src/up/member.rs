//! One process of the cluster: started, listened to, started again when it dies.

use std::net::SocketAddr;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use evenkeel_launch::{Launch, PortFile, Process, Signal, Stream};

/// Wait before the first restart; every further one waits twice as long.
const BACK_OFF_FIRST: Duration = Duration::from_millis(200);

/// Longest wait before a restart.
const BACK_OFF_MAX: Duration = Duration::from_secs(5);

/// A process that ran this long was sound: its next restart waits as little as the first.
const SOUND_AFTER: Duration = Duration::from_secs(10);

/// The role of a memcached, the program of that name. Each other is a part of Evenkeel.
pub const MEMCACHED: &str = "memcached";

/// What a member is for, and which flags that takes.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its name in messages and, for a server, in the cluster.
    pub name: String,
    /// The subcommand, or [`MEMCACHED`].
    pub role: &'static str,
    /// All flags but the address to listen on.
    pub arguments: Vec<String>,
    /// Where it listens first; port 0 takes a free one, which it then keeps.
    pub listen: SocketAddr,
}

/// One process of the cluster.
#[derive(Debug)]
pub struct Member {
    plan: Plan,
    process: Option<Process>,
    /// Where a memcached says where it listens, until that is read.
    port_file: Option<PortFile>,
    started: Instant,
    /// Where it listens, once it has said so.
    address: Option<SocketAddr>,
    last_error: Option<String>,
    back_off: Duration,
    restart_at: Option<Instant>,
}

impl Member {
    /// A member that is not started yet.
    pub fn new(plan: Plan) -> Self {
        Member {
            plan,
            process: None,
            port_file: None,
            started: Instant::now(),
            address: None,
            last_error: None,
            back_off: BACK_OFF_FIRST,
            restart_at: None,
        }
    }

    /// Starts the process.
    ///
    /// The kernel ends it with the calling thread, so that has to be one that stays. It is in a
    /// process group of its own: Ctrl-C in a terminal must reach the parent alone, which then stops
    /// everything in order.
    pub fn start(&mut self, program: &Path) -> anyhow::Result<()> {
        let (mut launch, port_file) = match self.plan.role {
            MEMCACHED => {
                let (launch, port_file) = Launch::memcached(Path::new(MEMCACHED), &[])?;
                (launch, Some(port_file))
            }
            role => (Launch::evenkeel(&self.plan.name, program, role), None),
        };
        launch
            .command
            .args(self.listen_arguments())
            .args(&self.plan.arguments)
            .process_group(0);
        // What is meant for one process must not configure all of them.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("EVENKEEL_") {
                launch.command.env_remove(name);
            }
        }
        self.process = Some(launch.spawn()?);
        self.port_file = port_file;
        self.started = Instant::now();
        self.last_error = None;
        self.restart_at = None;
        Ok(())
    }

    fn listen_arguments(&self) -> Vec<String> {
        let listen = self.address.unwrap_or(self.plan.listen);
        match self.plan.role {
            "server" => vec![
                "-l".into(),
                listen.ip().to_string(),
                "-p".into(),
                listen.port().to_string(),
                // The ports above may be other members'.
                "--worker-port".into(),
                "0".into(),
                // Anyone who runs `up` has decided already; of others than root this asks nothing.
                "-u".into(),
                "root".into(),
            ],
            // Over the -1 that takes a free one.
            MEMCACHED if listen.port() != 0 => vec!["-p".into(), listen.port().to_string()],
            MEMCACHED => Vec::new(),
            "proxy" => vec!["-l".into(), listen.to_string()],
            _ => vec!["--listen".into(), listen.to_string()],
        }
    }

    /// Takes in what the process has said, and whether it has ended since it was last asked. Lines that people should see
    /// come back, and of a process that has ended its id and how it ended.
    pub fn look(&mut self) -> (Vec<String>, Option<(u32, ExitStatus)>) {
        let Some(process) = &mut self.process else {
            return (Vec::new(), None);
        };
        // Asked first: what has ended says nothing more.
        let ended = process.ended().map(|status| (process.pid(), status));
        let said = self.port_file.as_ref().and_then(PortFile::address);
        if said.is_some() {
            self.port_file = None;
        }
        self.address = said.or(process.address()).or(self.address);
        let ours = [
            "evenkeel: ".to_owned(),
            format!("evenkeel {}: ", self.plan.role),
        ];
        let mut heard = Vec::new();
        for line in process.new_lines() {
            let text = ours.iter().find_map(|word| line.text.strip_prefix(word));
            let text = text.unwrap_or(&line.text).to_owned();
            if line.stream == Stream::Err {
                self.last_error = Some(text.clone());
            }
            heard.push(text);
        }
        if ended.is_some() {
            self.process = None;
        }
        (heard, ended)
    }

    /// Plans a restart; says in how long.
    pub fn plan_restart(&mut self) -> Duration {
        if self.started.elapsed() >= SOUND_AFTER {
            self.back_off = BACK_OFF_FIRST;
        }
        let wait = self.back_off;
        self.back_off = (wait * 2).min(BACK_OFF_MAX);
        self.restart_at = Some(Instant::now() + wait);
        wait
    }

    /// True when a planned restart is due.
    pub fn restart_due(&self) -> bool {
        self.restart_at.is_some_and(|at| Instant::now() >= at)
    }

    /// Sends the process a signal, if there is one.
    pub fn signal(&self, signal: Signal) {
        if let Some(process) = &self.process {
            // Fails only where the process has just ended.
            let _ = process.signal(signal);
        }
    }

    /// Waits until the process has ended, or until `end`.
    pub fn wait_until(&mut self, end: Instant) {
        if let Some(process) = &mut self.process {
            process.wait(end.saturating_duration_since(Instant::now()));
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.plan.name
    }

    /// Where it listens, once it has said so; kept over restarts.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Its process id while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }

    /// True once this life has said that it listens.
    pub fn is_ready(&self) -> bool {
        self.process
            .as_ref()
            .is_some_and(|process| match self.role() {
                MEMCACHED => self.port_file.is_none(),
                _ => process.ready_line().is_some(),
            })
    }

    /// What it is for.
    pub fn role(&self) -> &'static str {
        self.plan.role
    }

    /// The last line that this life said on standard error.
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }
}

/// How a process ended, in words that follow its name.
pub fn how_it_ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(role: &'static str, listen: &str) -> Member {
        Member::new(Plan {
            name: "m".into(),
            role,
            arguments: Vec::new(),
            listen: listen.parse().expect("an address"),
        })
    }

    #[test]
    fn the_port_that_was_taken_is_kept() {
        let mut server = member("server", "127.0.0.1:0");
        assert_eq!(
            server.listen_arguments(),
            [
                "-l",
                "127.0.0.1",
                "-p",
                "0",
                "--worker-port",
                "0",
                "-u",
                "root"
            ]
        );
        server.address = "127.0.0.1:4711".parse().ok();
        assert_eq!(
            server.listen_arguments(),
            [
                "-l",
                "127.0.0.1",
                "-p",
                "4711",
                "--worker-port",
                "0",
                "-u",
                "root"
            ]
        );
        let mut memcached = member(MEMCACHED, "127.0.0.1:0");
        assert!(memcached.listen_arguments().is_empty());
        memcached.address = "127.0.0.1:4712".parse().ok();
        assert_eq!(memcached.listen_arguments(), ["-p", "4712"]);
        let proxy = member("proxy", "127.0.0.1:7");
        assert_eq!(proxy.listen_arguments(), ["-l", "127.0.0.1:7"]);
    }

    #[test]
    fn restarts_back_off_up_to_a_limit() {
        let mut server = member("server", "127.0.0.1:0");
        let waits: Vec<u128> = (0..7).map(|_| server.plan_restart().as_millis()).collect();
        assert_eq!(waits, [200, 400, 800, 1600, 3200, 5000, 5000]);
        assert!(!server.restart_due());
    }

    /// Looks until the process of a member has ended: what it said, and how it ended.
    fn heard(member: &mut Member) -> (Vec<String>, String) {
        let mut all = Vec::new();
        loop {
            let (heard, ended) = member.look();
            all.extend(heard);
            if let Some((_, status)) = ended {
                return (all, how_it_ended(status));
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_child_is_heard_until_it_ends() {
        let mut echo = member("hello", "127.0.0.1:9");
        // `echo` prints its arguments: the flags that a member is started with.
        echo.start(Path::new("/bin/echo")).expect("echo starts");
        let pid = std::process::id();
        let said = format!("--die-with {pid} hello --listen 127.0.0.1:9");
        let ended = "ended with exit code 0".to_owned();
        assert_eq!(heard(&mut echo), (vec![said], ended));
        assert_eq!(echo.look(), (Vec::new(), None));
        // It takes none of the flags, and says so.
        let mut cat = member("proxy", "127.0.0.1:9");
        cat.start(Path::new("/bin/cat")).expect("cat starts");
        let (said, ended) = heard(&mut cat);
        assert_eq!(cat.last_error(), said.last().map(String::as_str));
        assert_eq!(ended, "ended with exit code 1");
    }
}
