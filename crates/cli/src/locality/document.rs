//! The file of a pool's proxies in which its architecture is switched. It is edited where it has to be, so that comments and order stay.
//!
//! The pool that takes another's place has its name with `-g` and a generation behind it: `main`, `main-g1`, `main-g2`. What items and notes
//! are called depends on both, and neither is used twice.

use evenkeel_runtime::UsageError;
use evenkeel_schemes::locality::model::Architecture;
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, TableLike, Value, value};

/// What stands between a pool's name and its generation.
const GENERATION_MARK: &str = "-g";

/// What does not go over from a pool to the one that takes its place.
const LEFT: [&str; 6] = [
    "architecture",
    "directory",
    "generation",
    "warm_from",
    "warm_fill",
    "cluster",
];

/// What goes over to a pool of which one rack holds each item, and to no other.
const HELD: [&str; 2] = ["local_copies", "local_copies_ttl"];

/// What is said of copies, and goes with them.
const COPIED: [&str; 8] = [
    "rack_copies",
    "pool_coordinator",
    "bundle",
    "copies",
    "copies_ttl",
    "copies_value_max",
    "copies_fill_share",
    "copies_strict",
];

/// What a pool is to become.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Where items are to live.
    pub architecture: Architecture,
    /// In how many racks each is to be, where it is to be in several; none for as many as there are, or two.
    pub rack_copies: Option<u8>,
    /// The pool of the notes, in a directory.
    pub directory: Option<String>,
    /// Other servers than it has; none for the same.
    pub servers: Vec<String>,
    /// The coordinator that leads the switch.
    pub coordinator: String,
}

/// Two pools of which one takes the other's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pools {
    /// The one that is left.
    pub from: String,
    /// The one that stays.
    pub to: String,
}

/// How a pool stands in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stand {
    /// Nothing takes its place; its name.
    Rests(String),
    /// It is in the middle of a switch.
    Switches(Pools),
}

/// The file. Clones are edited, so that what is to stand there can be looked at before it does.
#[derive(Clone, Debug)]
pub struct Document(DocumentMut);

impl Document {
    /// Reads what stands in a file.
    ///
    /// # Errors
    /// It is no TOML, or has no pools.
    pub fn read(text: &str) -> Result<Document, UsageError> {
        let document: DocumentMut = text
            .parse()
            .map_err(|error| UsageError(format!("the file cannot be read: {error}")))?;
        match document.get("pools").is_some_and(Item::is_table_like) {
            true => Ok(Document(document)),
            false => Err(UsageError("the file has no [pools.NAME]".to_owned())),
        }
    }

    /// What is to stand in the file.
    pub fn text(&self) -> String {
        self.0.to_string()
    }

    /// The names of all pools, in the order of the file.
    pub fn names(&self) -> Vec<&str> {
        let pools = self.0.get("pools").and_then(Item::as_table_like);
        pools.map_or_else(Vec::new, |pools| {
            pools.iter().map(|(name, _)| name).collect()
        })
    }

    /// What stands behind a key of a pool, if that is a text.
    pub fn said(&self, pool: &str, key: &str) -> Option<&str> {
        self.pool(pool)?.get(key)?.as_str()
    }

    /// The generation of a pool: 0 where nothing is said.
    pub fn generation(&self, pool: &str) -> u64 {
        let said = self.pool(pool).and_then(|it| it.get("generation"));
        let said = said.and_then(Item::as_integer);
        said.and_then(|said| u64::try_from(said).ok()).unwrap_or(0)
    }

    /// How the pool of this name stands, or the last that has taken its place.
    ///
    /// # Errors
    /// There is none.
    pub fn stand(&self, name: &str) -> Result<Stand, UsageError> {
        let names = self.names();
        let family = names
            .iter()
            .filter(|it| self.base(it) == name || **it == name);
        let Some(&last) = family.max_by_key(|it| self.generation(it)) else {
            return Err(UsageError(format!(
                "the file has no pool {name:?}; it has {}",
                names.join(", ")
            )));
        };
        let switch = |from: &str, to: &str| {
            Stand::Switches(Pools {
                from: from.to_owned(),
                to: to.to_owned(),
            })
        };
        if let Some(from) = self.said(last, "warm_from") {
            return Ok(switch(from, last));
        }
        let takes = |it: &&&str| self.said(it, "warm_from") == Some(last);
        Ok(match names.iter().find(takes) {
            Some(to) => switch(last, to),
            None => Stand::Rests(last.to_owned()),
        })
    }

    /// Has another pool take the place of this one. Gives the two.
    ///
    /// # Errors
    /// Its name is used.
    pub fn begin(&mut self, from: &str, wish: &Wish) -> Result<Pools, UsageError> {
        let generation = self.generation(from) + 1;
        let to = format!("{}{GENERATION_MARK}{generation}", self.base(from));
        let Some(mut pool) = self.0["pools"].get(from).cloned() else {
            return Err(UsageError(format!("the file has no pool {from:?}")));
        };
        if self.names().contains(&to.as_str()) {
            return Err(UsageError(format!(
                "the file has a pool {to:?} already: rename it, or take it out"
            )));
        }
        if let Some(table) = pool.as_table_mut() {
            table.decor_mut().set_prefix("\n");
        }
        if let Some(table) = pool.as_table_like_mut() {
            take_over(table, from, generation, wish);
        }
        if let Some(pools) = self.0["pools"].as_table_like_mut() {
            pools.insert(&to, pool);
        }
        self.lead(from, &to);
        Ok(Pools {
            from: from.to_owned(),
            to,
        })
    }

    /// The pool that was left goes, and the other one is as if it had always been there.
    pub fn end(&mut self, pools: &Pools) {
        self.remove(&pools.from);
        if let Some(pool) = self.pool_mut(&pools.to) {
            for key in ["warm_from", "pool_coordinator"] {
                pool.remove(key);
            }
        }
    }

    /// Items are where their keys say, and what is said of copies goes. Where they have been there before, nothing else changes.
    pub fn relabel(&mut self, pool: &str, architecture: Architecture) {
        if let Some(pool) = self.pool_mut(pool) {
            pool.insert("architecture", value(architecture.to_string()));
            for key in COPIED {
                pool.remove(key);
            }
        }
    }

    /// Items get copies in this many racks beside where they are; in as many as before, where nothing is said.
    pub fn replicate(&mut self, pool: &str, wish: &Wish) {
        if let Some(pool) = self.pool_mut(pool) {
            pool.insert("architecture", value(Architecture::Sdr.to_string()));
            if let Some(copies) = wish.rack_copies {
                pool.insert("rack_copies", value(i64::from(copies)));
            }
            pool.insert("pool_coordinator", value(&wish.coordinator));
        }
    }

    /// In how many racks each item of a pool is, if that is said.
    pub fn rack_copies(&self, pool: &str) -> Option<i64> {
        self.pool(pool)?.get("rack_copies")?.as_integer()
    }

    /// All is as it was before.
    pub fn take_back(&mut self, pools: &Pools) {
        self.lead(&pools.to, &pools.from);
        self.remove(&pools.to);
    }

    fn pool(&self, name: &str) -> Option<&dyn TableLike> {
        self.0.get("pools")?.get(name)?.as_table_like()
    }

    fn pool_mut(&mut self, name: &str) -> Option<&mut dyn TableLike> {
        let pools = self.0["pools"].as_table_like_mut()?;
        pools.get_mut(name)?.as_table_like_mut()
    }

    fn remove(&mut self, pool: &str) {
        if let Some(pools) = self.0["pools"].as_table_like_mut() {
            pools.remove(pool);
        }
    }

    /// A pool's name without its generation.
    fn base<'a>(&self, pool: &'a str) -> &'a str {
        let generation = self.generation(pool);
        let parts = pool.rsplit_once(GENERATION_MARK);
        let named = parts.filter(|(_, behind)| *behind == generation.to_string());
        named.map_or(pool, |(base, _)| base)
    }

    /// All routes to a pool lead to another. Without routes all requests go to the first pool.
    fn lead(&mut self, from: &str, to: &str) {
        let routes = self.0.entry("routes").or_insert_with(|| {
            let mut route = Table::new();
            route.insert("pool", value(from));
            Item::ArrayOfTables(ArrayOfTables::from_iter([route]))
        });
        let tables = routes.as_array_of_tables_mut().map(ArrayOfTables::iter_mut);
        for table in tables.into_iter().flatten() {
            lead(table, from, to);
        }
        let inline = routes.as_array_mut().map(Array::iter_mut);
        for table in inline
            .into_iter()
            .flatten()
            .filter_map(Value::as_inline_table_mut)
        {
            lead(table, from, to);
        }
    }
}

/// A route to one pool leads to another.
fn lead(route: &mut dyn TableLike, from: &str, to: &str) {
    let pool = route.get_mut("pool").and_then(Item::as_value_mut);
    if let Some(pool) = pool.filter(|pool| pool.as_str() == Some(from)) {
        let decor = pool.decor().clone();
        *pool = Value::from(to);
        *pool.decor_mut() = decor;
    }
}

/// A copy of a pool becomes the one that takes its place.
fn take_over(pool: &mut dyn TableLike, from: &str, generation: u64, wish: &Wish) {
    for key in LEFT.into_iter().chain(COPIED) {
        pool.remove(key);
    }
    if !matches!(wish.architecture, Architecture::Snoop | Architecture::Dir) {
        for key in HELD {
            pool.remove(key);
        }
    }
    if !wish.servers.is_empty() {
        let servers: Array = wish.servers.iter().map(String::as_str).collect();
        pool.insert("servers", value(servers));
    }
    pool.insert("architecture", value(wish.architecture.to_string()));
    if let Some(directory) = &wish.directory {
        pool.insert("directory", value(directory));
    }
    // A generation beyond all is refused with the file.
    pool.insert(
        "generation",
        value(i64::try_from(generation).unwrap_or(i64::MAX)),
    );
    pool.insert("warm_from", value(from));
    pool.insert("pool_coordinator", value(&wish.coordinator));
}

/// Plainly that, for tests.
#[cfg(test)]
pub fn wish(architecture: Architecture) -> Wish {
    Wish {
        architecture,
        rack_copies: None,
        directory: (architecture == Architecture::Dir).then(|| "notes".to_owned()),
        servers: Vec::new(),
        coordinator: "http://c:1".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"# All proxies have this file.
[topology.racks.a]
cidr = "10.1.0.0/16"

# What pages are made of.
[pools.main]
servers = ["10.1.0.7", "10.2.0.7"] # two racks
request_timeout = "1s"
architecture = "sds"

[pools.notes]
servers = ["10.0.0.7"]

[[routes]]
prefix = "n:"
pool = "notes"

[[routes]]
pool = "main" # the rest
"#;

    fn switch(from: &str, to: &str) -> Pools {
        Pools {
            from: from.to_owned(),
            to: to.to_owned(),
        }
    }

    #[test]
    fn a_pool_takes_the_place_of_another() {
        let mut document = Document::read(FILE).unwrap();
        assert_eq!(document.stand("main").unwrap(), Stand::Rests("main".into()));
        let begun = document.begin("main", &wish(Architecture::Dir)).unwrap();
        assert_eq!(begun, switch("main", "main-g1"));
        let during = FILE
            .replace(
                "architecture = \"sds\"\n",
                "architecture = \"sds\"\n\n[pools.main-g1]\nservers = [\"10.1.0.7\", \"10.2.0.7\"] # two racks\n\
                 request_timeout = \"1s\"\narchitecture = \"dir\"\ndirectory = \"notes\"\ngeneration = 1\n\
                 warm_from = \"main\"\npool_coordinator = \"http://c:1\"\n",
            )
            .replace("pool = \"main\" #", "pool = \"main-g1\" #");
        assert_eq!(document.text(), during);
        for name in ["main", "main-g1"] {
            assert_eq!(
                document.stand(name).unwrap(),
                Stand::Switches(begun.clone())
            );
        }
        let mut back = document.clone();
        back.take_back(&begun);
        assert_eq!(back.text(), FILE);
        document.end(&begun);
        let text = document.text();
        assert!(
            !text.contains("[pools.main]") && !text.contains("warm_from"),
            "{text}"
        );
        assert!(!text.contains("pool_coordinator"), "{text}");
        assert!(text.contains("generation = 1\n"), "{text}");
        // It goes on from there, by either name.
        for name in ["main", "main-g1"] {
            let stand = document.stand(name).unwrap();
            assert_eq!(stand, Stand::Rests("main-g1".into()));
        }
        let next = document
            .begin("main-g1", &wish(Architecture::Snoop))
            .unwrap();
        assert_eq!(next, switch("main-g1", "main-g2"));
        assert_eq!(document.said("main-g2", "directory"), None);
        let held = FILE.replace("\"sds\"\n", "\"snoop\"\nlocal_copies = \"on\"\n");
        for (to, stays) in [(Architecture::Dir, true), (Architecture::Sds, false)] {
            let mut document = Document::read(&held).unwrap();
            document.begin("main", &wish(to)).unwrap();
            assert_eq!(document.said("main-g1", "local_copies").is_some(), stays);
        }
        assert_eq!(document.generation("main-g2"), 2);
    }

    #[test]
    fn copies_come_and_go_where_items_are() {
        let mut document = Document::read(FILE).unwrap();
        let copied = Wish {
            rack_copies: Some(3),
            ..wish(Architecture::Sdr)
        };
        document.replicate("main", &copied);
        let expected = FILE.replace(
            "architecture = \"sds\"\n",
            "architecture = \"sdr\"\nrack_copies = 3\npool_coordinator = \"http://c:1\"\n",
        );
        assert_eq!(document.text(), expected);
        assert_eq!(document.rack_copies("main"), Some(3));
        document.replicate("main", &wish(Architecture::Sdr));
        assert_eq!(document.text(), expected);
        document.relabel("main", Architecture::Sds);
        assert_eq!(document.text(), FILE);
    }

    #[test]
    fn a_file_without_routes_gets_one() {
        let mut document = Document::read("[pools.main]\nservers = [\"a\"]\n").unwrap();
        let begun = document.begin("main", &wish(Architecture::Snoop)).unwrap();
        assert!(document.text().contains("[[routes]]\npool = \"main-g1\"\n"));
        document.take_back(&begun);
        assert!(document.text().contains("[[routes]]\npool = \"main\"\n"));
    }

    #[test]
    fn tables_in_a_line_are_edited_too() {
        let text = "routes = [{ pool = \"main\" }]\n[pools]\nmain = { servers = [\"a\"] }\n";
        let mut document = Document::read(text).unwrap();
        let other = Wish {
            servers: vec!["b:1".into(), "c:2".into()],
            ..wish(Architecture::Sdc)
        };
        document.begin("main", &other).unwrap();
        let text = document.text();
        assert!(
            text.starts_with("routes = [{ pool = \"main-g1\" }]\n"),
            "{text}"
        );
        assert!(text.contains("\"b:1\", \"c:2\""), "{text}");
        assert_eq!(document.said("main-g1", "architecture"), Some("sdc"));
    }

    #[test]
    fn what_cannot_be_edited_is_refused() {
        assert!(Document::read("[pools").is_err());
        assert!(Document::read("[proxy]\n").is_err());
        let document = Document::read(FILE).unwrap();
        let unknown = document.stand("other").unwrap_err().to_string();
        assert!(unknown.contains("it has main, notes"), "{unknown}");
        let taken = format!("{FILE}[pools.main-g1]\nservers = [\"a\"]\n");
        let mut document = Document::read(&taken).unwrap();
        // It has no generation, and is another pool.
        assert_eq!(document.stand("main").unwrap(), Stand::Rests("main".into()));
        assert!(document.begin("main", &wish(Architecture::Snoop)).is_err());
    }
}
