//! Numbers that are shown to people, each declared once.

/// What is shown of a number of `T`, and how.
pub struct Shown<T> {
    /// Its name in statistics.
    pub name: &'static str,
    /// What it counts, for people.
    pub help: &'static str,
    /// Its metric, if it has one of its own.
    pub metric: Option<Metric>,
    /// Reads it.
    pub value: fn(&T) -> u64,
}

/// How a number is shown to Prometheus.
pub struct Metric {
    /// `counter`, which only grows, or `gauge`.
    pub kind: &'static str,
    /// Its name, if that does not follow from the one in statistics.
    pub name: Option<&'static str>,
}

impl Metric {
    /// Its whole name: `prefix`, `name`, and `_total` if it only grows, unless it has another.
    pub fn full_name(&self, prefix: &str, name: &str) -> String {
        let end = match self.kind {
            "counter" => "_total",
            _ => "",
        };
        let usual = || format!("{prefix}{name}{end}");
        self.name.map_or_else(usual, str::to_owned)
    }
}

impl<T> Shown<T> {
    /// The row of docs/statistics.md. Names of metrics begin with `prefix`.
    pub fn row(&self, prefix: &str) -> String {
        let Shown { name, help, .. } = self;
        let metric = self.metric.as_ref().map(|it| it.full_name(prefix, name));
        let metric = metric.map_or(String::new(), |name| format!("`{name}`"));
        format!("| `{name}` | {metric} | {help} |\n")
    }
}

/// Declares a struct of numbers, each with its rows of statistics, its metric and its row of docs/statistics.md. They stand
/// in lists, constants of the struct. `name, "help";` is a number without a metric of its own, `name => counter` or
/// `name => gauge` one with it; behind that may stand another name of the metric. A field behind `..` is no number, but has
/// an `add` of its own.
#[macro_export]
macro_rules! counters {
    (@metric) => { None };
    (@metric $kind:ident) => { Some($crate::shown::Metric { kind: stringify!($kind), name: None }) };
    (@metric $kind:ident $metric:literal) => { Some($crate::shown::Metric { kind: stringify!($kind), name: Some($metric) }) };
    (
        $(#[$meta:meta])*
        $vis:vis struct $Struct:ident {
            $(
                $(#[$list_meta:meta])*
                $LIST:ident { $($name:ident $(=> $kind:ident $($metric:literal)?)?, $help:literal;)* }
            )*
            $(.. $(#[$more_meta:meta])* $more:ident: $More:ty)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        $vis struct $Struct {
            $($(#[doc = $help] pub $name: u64,)*)*
            $($(#[$more_meta])* pub $more: $More,)?
        }

        impl $Struct {
            $(
                $(#[$list_meta])*
                pub const $LIST: &[$crate::shown::Shown<$Struct>] = &[
                    $($crate::shown::Shown {
                        name: stringify!($name),
                        help: $help,
                        metric: $crate::counters!(@metric $($kind $($metric)?)?),
                        value: |it| it.$name,
                    },)*
                ];
            )*

            /// Adds the numbers of another.
            pub fn add(&mut self, other: &$Struct) {
                $($(self.$name = self.$name.saturating_add(other.$name);)*)*
                $(self.$more.add(&other.$more);)?
            }
        }
    };
}

#[cfg(test)]
mod tests {
    counters! {
        /// Some numbers.
        struct Apples {
            /// Those told in words.
            TOLD {
                eaten => counter, "Apples eaten.";
                ripe, "Apples that are ripe.";
            }
            /// The others.
            KEPT {
                left => gauge "orchard_apples", "Apples left.";
            }
        }
    }

    #[test]
    fn a_number_is_declared_once() {
        let mut sum = Apples {
            eaten: 1,
            ..Apples::default()
        };
        sum.add(&Apples {
            eaten: 2,
            ripe: 3,
            left: u64::MAX,
        });
        sum.add(&sum.clone());
        let rows = Apples::TOLD.iter().chain(Apples::KEPT);
        let shown: Vec<_> = rows.clone().map(|it| (it.name, (it.value)(&sum))).collect();
        assert_eq!(shown, [("eaten", 6), ("ripe", 6), ("left", u64::MAX)]);
        let rows: String = rows.map(|it| it.row("tree_")).collect();
        assert_eq!(
            rows,
            "| `eaten` | `tree_eaten_total` | Apples eaten. |\n\
             | `ripe` |  | Apples that are ripe. |\n\
             | `left` | `orchard_apples` | Apples left. |\n"
        );
    }
}
