//! One process of the cluster: started, listened to, started again when it dies.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Wait before the first restart; every further one waits twice as long.
const BACK_OFF_FIRST: Duration = Duration::from_millis(200);

/// Longest wait before a restart.
const BACK_OFF_MAX: Duration = Duration::from_secs(5);

/// A process that ran this long was sound: its next restart waits as little as the first.
const SOUND_AFTER: Duration = Duration::from_secs(10);

/// Longest line of a process that is passed on; a longer one arrives in pieces.
const LINE_LEN_MAX: u64 = 4096;

/// What a process says.
#[derive(Debug)]
pub struct Word {
    /// Index of the member.
    pub member: usize,
    /// Which of its lives: lines of an earlier one may arrive late.
    pub life: u32,
    /// What.
    pub said: Said,
}

/// A line, or the end of a stream of lines.
#[derive(Debug)]
pub enum Said {
    /// On standard output.
    Out(String),
    /// On standard error.
    Err(String),
    /// One of its two streams has ended.
    End,
}

/// What a member is for, and which flags that takes.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its name in messages and, for a server, in the cluster.
    pub name: String,
    /// The subcommand.
    pub role: &'static str,
    /// All flags but the address to listen on.
    pub arguments: Vec<OsString>,
    /// Where it listens first; port 0 takes a free one, which it then keeps.
    pub listen: SocketAddr,
}

/// One process of the cluster.
#[derive(Debug)]
pub struct Member {
    plan: Plan,
    index: usize,
    child: Option<Child>,
    life: u32,
    started: Instant,
    /// Where it listens, once it has said so.
    address: Option<SocketAddr>,
    ready: bool,
    /// Streams of the present life that have not ended.
    open_streams: u32,
    last_error: Option<String>,
    back_off: Duration,
    restart_at: Option<Instant>,
}

impl Member {
    /// A member that is not started yet. `index` stands in its words.
    pub fn new(plan: Plan, index: usize) -> Self {
        Member {
            plan,
            index,
            child: None,
            life: 0,
            started: Instant::now(),
            address: None,
            ready: false,
            open_streams: 0,
            last_error: None,
            back_off: BACK_OFF_FIRST,
            restart_at: None,
        }
    }

    /// Starts the process; what it says goes to `words`.
    ///
    /// The kernel ends it with the calling thread, so that has to be one that stays. It is in a
    /// process group of its own: Ctrl-C in a terminal must reach the parent alone, which then stops
    /// everything in order.
    pub fn start(&mut self, program: &Path, words: &Sender<Word>) -> io::Result<()> {
        let mut command = Command::new(program);
        command
            .arg("--die-with")
            .arg(std::process::id().to_string())
            .arg(self.plan.role)
            .args(self.listen_arguments())
            .args(&self.plan.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        // What is meant for one process must not configure all of them.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("EVENKEEL_") {
                command.env_remove(name);
            }
        }
        let mut child = command.spawn()?;
        self.life += 1;
        self.started = Instant::now();
        self.ready = false;
        self.last_error = None;
        self.restart_at = None;
        self.open_streams = 2;
        let pipes = (child.stdout.take(), child.stderr.take());
        self.child = Some(child);
        if let (Some(out), Some(err)) = pipes {
            self.listen_to(out, Said::Out, words)?;
            self.listen_to(err, Said::Err, words)?;
        }
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
                // Whoever runs `up` has decided already; of others than root this asks nothing.
                "-u".into(),
                "root".into(),
            ],
            "proxy" => vec!["-l".into(), listen.to_string()],
            _ => vec!["--listen".into(), listen.to_string()],
        }
    }

    fn listen_to(
        &self,
        pipe: impl Read + Send + 'static,
        wrap: fn(String) -> Said,
        words: &Sender<Word>,
    ) -> io::Result<()> {
        let (member, life, words) = (self.index, self.life, words.clone());
        let name = format!("{}-output", self.plan.name);
        evenkeel_runtime::spawn_named(name, move || {
            let say = |said| words.send(Word { member, life, said }).is_ok();
            for_each_line(pipe, |line| say(wrap(line)));
            say(Said::End)
        })
        .map(|_| ())
    }

    /// Takes in what the process said; a line that people should see comes back.
    pub fn hear(&mut self, word: Word) -> Option<String> {
        if word.life != self.life {
            return None;
        }
        let ready = format!("evenkeel {} listening on ", self.plan.role);
        match word.said {
            Said::End => {
                self.open_streams -= 1;
                None
            }
            Said::Out(line) if line.starts_with(&ready) => {
                self.address = line[ready.len()..].trim().parse().ok().or(self.address);
                self.ready = true;
                None
            }
            Said::Out(line) => Some(line),
            Said::Err(line) => {
                let line = ["evenkeel: ", "evenkeel server: ", "evenkeel proxy: "]
                    .iter()
                    .chain(&["evenkeel coordinator: "])
                    .find_map(|prefix| line.strip_prefix(prefix))
                    .unwrap_or(&line)
                    .to_owned();
                self.last_error = Some(line.clone());
                Some(line)
            }
        }
    }

    /// How the process ended, if it has ended since it was last asked and everything it said has
    /// been heard.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.open_streams > 0 {
            return None;
        }
        // A child that cannot be asked about any more is as good as gone.
        let status = match self.child.as_mut()?.try_wait() {
            Ok(None) => return None,
            Ok(Some(status)) => status,
            Err(_) => ExitStatus::default(),
        };
        self.child = None;
        self.ready = false;
        Some(status)
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
        if let Some(child) = &self.child {
            // Fails only where the process has just ended.
            let _ = kill_process(Pid::from_child(child), signal);
        }
    }

    /// True while there is a process that has not ended.
    pub fn is_running(&mut self) -> bool {
        self.child
            .as_mut()
            .is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Ends the process the hard way and reaps it.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Both fail only where the process is gone already.
            let _ = child.kill();
            let _ = child.wait();
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
        self.child.as_ref().map(Child::id)
    }

    /// True once this life has said that it listens.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// The last line that this life said on standard error.
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
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

fn for_each_line(pipe: impl Read, mut take: impl FnMut(String) -> bool) {
    let mut reader = BufReader::new(pipe);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut reader)
            .take(LINE_LEN_MAX)
            .read_until(b'\n', &mut line)
        {
            Ok(0) | Err(_) => return,
            Ok(_) if take(String::from_utf8_lossy(&line).trim_end().to_owned()) => {}
            Ok(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn member(role: &'static str, listen: &str) -> Member {
        let plan = Plan {
            name: "m".into(),
            role,
            arguments: Vec::new(),
            listen: listen.parse().expect("an address"),
        };
        let mut member = Member::new(plan, 0);
        member.open_streams = 2;
        member
    }

    fn said(life: u32, said: Said) -> Word {
        Word {
            member: 0,
            life,
            said,
        }
    }

    #[test]
    fn the_port_that_was_taken_is_kept() {
        let mut server = member("server", "127.0.0.1:0");
        assert_eq!(
            server.listen_arguments(),
            ["-l", "127.0.0.1", "-p", "0", "-u", "root"]
        );
        let ready = "evenkeel server listening on 127.0.0.1:4711";
        assert_eq!(server.hear(said(0, Said::Out(ready.into()))), None);
        assert!(server.is_ready());
        assert_eq!(
            server.listen_arguments(),
            ["-l", "127.0.0.1", "-p", "4711", "-u", "root"]
        );
        let proxy = member("proxy", "127.0.0.1:7");
        assert_eq!(proxy.listen_arguments(), ["-l", "127.0.0.1:7"]);
    }

    #[test]
    fn words_of_an_earlier_life_are_not_believed() {
        let mut proxy = member("proxy", "127.0.0.1:0");
        proxy.life = 2;
        proxy.hear(said(1, Said::End));
        proxy.hear(said(1, Said::Err("evenkeel: old".into())));
        assert_eq!((proxy.open_streams, proxy.last_error()), (2, None));
        let told = proxy.hear(said(2, Said::Err("evenkeel proxy: new".into())));
        assert_eq!(told.as_deref(), Some("new"));
        assert_eq!(proxy.last_error(), Some("new"));
    }

    #[test]
    fn restarts_back_off_up_to_a_limit() {
        let mut server = member("server", "127.0.0.1:0");
        let waits: Vec<u128> = (0..7).map(|_| server.plan_restart().as_millis()).collect();
        assert_eq!(waits, [200, 400, 800, 1600, 3200, 5000, 5000]);
        assert!(!server.restart_due());
    }

    #[test]
    fn a_child_is_heard_until_it_ends() {
        let (sender, words) = channel();
        let mut echo = member("hello", "127.0.0.1:9");
        // `echo` prints its arguments: the flags that a member is started with.
        echo.start(Path::new("/bin/echo"), &sender)
            .expect("echo starts");
        let heard = loop {
            let word = words.recv().expect("it says something");
            let line = echo.hear(word);
            if line.is_some() {
                break line;
            }
        };
        let expected = format!(
            "--die-with {} hello --listen 127.0.0.1:9",
            std::process::id()
        );
        assert_eq!(heard, Some(expected));
        while echo.open_streams > 0 {
            echo.hear(words.recv().expect("both streams end"));
        }
        let status = loop {
            if let Some(status) = echo.ended() {
                break status;
            }
            std::thread::yield_now();
        };
        assert_eq!(how_it_ended(status), "ended with exit code 0");
        assert_eq!(echo.ended(), None);
    }
}
