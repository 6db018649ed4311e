//! A MediaWiki of Debian's package in a folder of its own: sqlite for what must last, the proxy for all
//! that it caches and for its sessions, PHP's own web server in front.

use std::fs::OpenOptions;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use evenkeel_testkit::{Process, READY_DEADLINE, require_program};
use tempfile::TempDir;

/// The administrator's name.
pub const ADMIN: &str = "Admin";

/// Long enough for MediaWiki.
pub const PASSWORD: &str = "an evenly kept secret";

/// Name of the database, which MediaWiki puts before its keys and cookies.
const DATABASE: &str = "wiki";

/// Reads of this key say which page is made, and for which session (`profile_key`).
pub const PROFILE_KEY: &str = "profiled";

/// The cookie that holds the session's id.
pub const SESSION_COOKIE: &str = "wiki_session";

/// The cookie by which a browser is known to those who profile: its session is another one before and after it has logged in.
pub const VISITOR_COOKIE: &str = "visitor";

/// How long the installation may take: a second and a half on a quiet machine.
const INSTALL_DEADLINE: Duration = Duration::from_secs(120);

/// What a wiki keeps in its cache, as the paper on locality had it (section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    /// Everything.
    Full,
    /// Everything but messages and parsed pages.
    Limited,
    /// Sessions alone.
    Session,
}

impl Caching {
    /// All of them, with the paper's names.
    pub const ALL: [(Caching, &str); 3] = [
        (Caching::Full, "full"),
        (Caching::Limited, "limited"),
        (Caching::Session, "session"),
    ];
}

/// How the wiki uses its cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheClient {
    /// Through MediaWiki's own client, in PHP.
    Own,
    /// The same, with copies of the messages in APCu, as MediaWiki recommends.
    OwnBesideApcu,
    /// Through php-memcached, which is libmemcached.
    Pecl,
}

/// A running wiki. It ends with this.
pub struct Wiki {
    /// Web servers of the same wiki, with their addresses.
    servers: Vec<(Process, SocketAddr)>,
    folder: TempDir,
}

impl Wiki {
    /// Installs a wiki whose only cache is at `cache`, and serves it.
    ///
    /// # Panics
    /// When MediaWiki or what it needs is not installed, or does not start.
    pub fn start(client: CacheClient, cache: SocketAddr) -> Wiki {
        Wiki::start_at(client, Caching::Full, &[cache])
    }

    /// The same with a web server for each of these addresses of the cache.
    ///
    /// # Panics
    /// As [`Wiki::start`].
    pub fn start_at(client: CacheClient, caching: Caching, caches: &[SocketAddr]) -> Wiki {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let php = require_php(client);
        install(&php, folder.path());
        let settings = folder.path().join("LocalSettings.php");
        let mut file = OpenOptions::new()
            .append(true)
            .open(&settings)
            .expect("the installer writes the settings");
        file.write_all(cache_settings(client, caching, folder.path()).as_bytes())
            .expect("the settings can be written");
        let servers = caches.iter().map(|cache| {
            // It says where it listens on standard error.
            let server = Process::command("php -S", require_program("sh"))
                .args(["-c", "exec \"$@\" 2>&1", "sh"])
                .arg(&php)
                .args(["-d", "opcache.enable_cli=1", "-d"])
                .arg(match client {
                    CacheClient::OwnBesideApcu => "apc.enabled=1",
                    CacheClient::Own | CacheClient::Pecl => "apc.enabled=0",
                })
                .args(["-S", "127.0.0.1:0", "-t"])
                .arg(code())
                .env("MW_CONFIG_FILE", &settings)
                .env("WIKI_CACHE", cache.to_string())
                .spawn();
            let address = listening(&server);
            (server, address)
        });
        let servers = servers.collect();
        Wiki { servers, folder }
    }

    /// Where its pages are: of several web servers at the first.
    pub fn address(&self) -> SocketAddr {
        self.addresses()[0]
    }

    /// Its web servers.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.servers.iter().map(|(_, address)| *address).collect()
    }

    /// What it says of its cache: each answer that is not one of the protocol's good ones.
    pub fn cache_errors(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.folder.path().join("memcached.log"))
            .expect("the wiki writes what it asks its cache");
        log.lines()
            .filter(|line| {
                ["ERROR", "rror", "ailed"]
                    .iter()
                    .any(|sign| line.contains(sign))
            })
            .map(str::to_owned)
            .collect()
    }

    /// Last lines of the web servers, for messages.
    pub fn story(&self) -> String {
        let servers = self.servers.iter();
        servers.map(|(server, _)| server.stdout_text()).collect()
    }
}

/// The key of a session in the cache.
pub fn session_key(session: &str) -> String {
    format!("{DATABASE}:MWSession:{session}")
}

/// The key that every page's messages are under.
pub fn messages_key() -> String {
    format!("{DATABASE}:messages:en")
}

/// MediaWiki's code: as the package installs it, or as `scripts/mediawiki.sh` unpacks it.
fn code() -> PathBuf {
    // target/<profile>/deps/<test>-<hash>
    let test = std::env::current_exe().expect("a process knows its own path on Linux");
    let unpacked = test
        .ancestors()
        .map(|dir| dir.join("mediawiki/usr/share/mediawiki"));
    [PathBuf::from("/usr/share/mediawiki")]
        .into_iter()
        .chain(unpacked)
        .find(|dir| dir.join("maintenance/install.php").is_file())
        .expect("this test needs Debian's MediaWiki: scripts/mediawiki.sh fetches it (make test does it)")
}

/// The PHP interpreter with all that a wiki needs of it.
fn require_php(client: CacheClient) -> PathBuf {
    let php = require_program("php");
    let output = Command::new(&php).arg("-m").output().expect("php starts");
    let modules = String::from_utf8_lossy(&output.stdout).to_lowercase();
    let of_client = match client {
        CacheClient::Own => None,
        CacheClient::OwnBesideApcu => Some(("apcu", "php-apcu")),
        CacheClient::Pecl => Some(("memcached", "php-memcached")),
    };
    let of_mediawiki = [
        ("pdo_sqlite", "php-sqlite3"),
        ("mbstring", "php-mbstring"),
        ("xml", "php-xml"),
        ("intl", "php-intl"),
    ];
    for (module, package) in of_mediawiki.into_iter().chain(of_client) {
        assert!(
            modules.lines().any(|line| line == module),
            "this test needs PHP's module {module}: apt-get install {package} (make test, or make conformance, does it)"
        );
    }
    php
}

fn install(php: &Path, folder: &Path) {
    let mut installer = Process::command("MediaWiki's installer", php)
        .arg(code().join("maintenance/install.php"))
        .args(["--dbtype", "sqlite", "--dbname", DATABASE, "--dbpath"])
        .arg(folder.join("data"))
        .args([
            "--scriptpath",
            "",
            "--server",
            "http://127.0.0.1",
            "--lang",
            "en",
        ])
        .args(["--pass", PASSWORD, "--confpath"])
        .arg(folder)
        .args(["A wiki", ADMIN])
        .spawn();
    let status = installer.wait(INSTALL_DEADLINE);
    assert!(
        status.success() && folder.join("LocalSettings.php").is_file(),
        "MediaWiki's installer: {status}\n{}{}",
        installer.stdout_text(),
        installer.stderr_text()
    );
}

fn cache_settings(client: CacheClient, caching: Caching, folder: &Path) -> String {
    let kind = match client {
        CacheClient::Own | CacheClient::OwnBesideApcu => "CACHE_MEMCACHED",
        CacheClient::Pecl => "'memcached-pecl'",
    };
    let of = |is_cached| if is_cached { kind } else { "CACHE_NONE" };
    let (main, pages) = (
        of(caching != Caching::Session),
        of(caching == Caching::Full),
    );
    let is_local = client == CacheClient::OwnBesideApcu;
    let log = folder.join("memcached.log");
    format!(
        "\n# What the test adds.\n\
         $wgServer = 'http://' . ( $_SERVER['HTTP_HOST'] ?? '127.0.0.1' );\n\
         $wgMemCachedServers = [ getenv('WIKI_CACHE') ];\n\
         # Microseconds: what is slow here is the machine.\n\
         $wgMemCachedTimeout = 60000000;\n\
         $wgMainCacheType = {main};\n\
         $wgMessageCacheType = {pages};\n\
         $wgParserCacheType = {pages};\n\
         $wgSessionCacheType = {kind};\n\
         $wgDebugLogGroups['memcached'] = '{}';\n\
         $wgShowExceptionDetails = true;\n\
         $wgUseLocalMessageCache = {is_local};\n\
         # The same user logs in again and again, all from one address.\n\
         $wgPasswordAttemptThrottle = [];\n\
         $wgAccountCreationThrottle = [];\n\
         # Each connection says first which page this is, and whose: to a proxy that records.\n\
         define( 'PROFILED', '{PROFILE_KEY}:' . mt_rand() . ':' . ( $_COOKIE['{VISITOR_COOKIE}'] ?? 'nobody' ) );\n\
         class MarkedCache extends MemcachedPhpBagOStuff {{\n\
             public function __construct( $params ) {{\n\
                 parent::__construct( $params );\n\
                 $this->get( PROFILED );\n\
             }}\n\
         }}\n\
         $wgObjectCaches[CACHE_MEMCACHED] = [ 'class' => MarkedCache::class, 'loggroup' => 'memcached' ];\n",
        log.display()
    )
}

/// Reads `[date] PHP 8.2.1 Development Server (http://127.0.0.1:36447) started`.
fn listening(server: &Process) -> SocketAddr {
    let line = server
        .next_line(READY_DEADLINE)
        .unwrap_or_else(|| panic!("php -S says nothing: {}", server.stderr_text()));
    let address = line
        .split_once("(http://")
        .and_then(|(_, rest)| rest.split_once(')'));
    address
        .and_then(|(address, _)| address.parse().ok())
        .unwrap_or_else(|| panic!("php -S does not say where it listens: {line}"))
}
