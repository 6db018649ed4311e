//! How the demo looks while it runs: a screen that is redrawn in place on a terminal, a line a second
//! anywhere else.

use super::measure::Sample;
use super::report::Phase;
use crossterm::cursor::{Hide, MoveTo, MoveToNextLine, Show};
use crossterm::queue;
use crossterm::style::{Attribute, Color, Print, ResetColor, SetAttribute, SetForegroundColor};
use crossterm::terminal::{
    self, BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen,
    LeaveAlternateScreen,
};
use evenkeel_bench::OutputFormat;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// Width of the longest bar.
const BAR_LEN: usize = 32;

/// Loads up to this many times the mean fit on the screen; the longest bar stands for more, too.
const BAR_MEANS: f64 = 2.0;

/// Hot keys shown.
const HOT_KEYS_SHOWN: usize = 8;

/// Longest key shown in full.
const KEY_SHOWN_LEN: usize = 40;

/// Notices shown.
const NOTICES_SHOWN: usize = 3;

/// Size of a terminal that does not say.
const SIZE_DEFAULT: (u16, u16) = (80, 24);

/// A load up to this many times the mean counts as balanced, and is coloured so.
const BALANCED: f64 = 1.2;

/// Distance of the lines where there is no screen.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// What there is to see.
pub struct View<'a> {
    /// The cluster in one line.
    pub title: &'a str,
    /// The load in one line.
    pub workload: &'a str,
    /// The phase.
    pub phase: Phase,
    /// Time since the first phase began.
    pub elapsed: Duration,
    /// Length of all phases.
    pub total: Duration,
    /// Names of the servers.
    pub names: &'a [String],
    /// The last second.
    pub sample: &'a Sample,
}

/// Where progress is shown. Dropping it leaves the terminal as it was.
pub struct Screen {
    out: Box<dyn Write>,
    live: bool,
    notices: Vec<String>,
    /// When the last line was written, by the clock of the view.
    last_line: Option<Duration>,
    /// The last work that was told of, which is not repeated.
    status: String,
}

impl Screen {
    /// Standard output, unless that is for a report that programs read.
    ///
    /// # Errors
    /// When the terminal cannot be written to.
    pub fn open(format: OutputFormat) -> io::Result<Screen> {
        let (out, live): (Box<dyn Write>, bool) = match format {
            OutputFormat::Table => (Box::new(io::stdout()), io::stdout().is_terminal()),
            OutputFormat::Json => (Box::new(io::stderr()), io::stderr().is_terminal()),
        };
        let mut screen = Screen {
            out,
            live,
            notices: Vec::new(),
            last_line: None,
            status: String::new(),
        };
        if live {
            queue!(screen.out, EnterAlternateScreen, Hide)?;
            screen.out.flush()?;
        }
        Ok(screen)
    }

    /// Gives the terminal back.
    ///
    /// # Errors
    /// When it cannot be written to.
    pub fn close(mut self) -> io::Result<()> {
        self.restore()
    }

    fn restore(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.live) {
            queue!(self.out, ResetColor, Show, LeaveAlternateScreen)?;
            self.out.flush()?;
        }
        Ok(())
    }

    /// Says what goes on before there is anything to see. How far it has got (`progress`) is only
    /// for the screen.
    ///
    /// # Errors
    /// When the output cannot be written to.
    pub fn status(&mut self, work: &str, progress: &str) -> io::Result<()> {
        if self.live {
            let status = format!("{work} {progress}");
            return self.draw(&[Line::plain("evenkeel demo"), Line::plain(status)]);
        }
        if self.status == work {
            return Ok(());
        }
        work.clone_into(&mut self.status);
        writeln!(self.out, "{work}")
    }

    /// Says once what is going to be seen; the screen shows it all the time.
    ///
    /// # Errors
    /// When the output cannot be written to.
    pub fn introduce(&mut self, title: &str, workload: &str) -> io::Result<()> {
        if self.live {
            return Ok(());
        }
        writeln!(self.out, "{title}\n{workload}")
    }

    /// Says something unusual.
    ///
    /// # Errors
    /// When the output cannot be written to.
    pub fn notice(&mut self, notice: &str) -> io::Result<()> {
        let notice: String = notice.chars().filter(|c| !c.is_control()).collect();
        if !self.live {
            return writeln!(self.out, "note: {notice}");
        }
        if self.notices.len() == NOTICES_SHOWN {
            self.notices.remove(0);
        }
        self.notices.push(notice);
        Ok(())
    }

    /// Shows how it goes.
    ///
    /// # Errors
    /// When the output cannot be written to.
    pub fn show(&mut self, view: &View<'_>) -> io::Result<()> {
        if self.live {
            let mut lines = view.lines();
            lines.extend(self.notices.iter().map(Line::plain));
            return self.draw(&lines);
        }
        let second = |at: Duration| at.as_secs() / LINE_INTERVAL.as_secs();
        if self.last_line.map(second) != Some(second(view.elapsed)) {
            self.last_line = Some(view.elapsed);
            writeln!(self.out, "{}", view.one_line())?;
        }
        Ok(())
    }

    /// Columns of a report on standard output; nothing where no terminal cuts it.
    pub fn report_width() -> Option<u16> {
        let (width, _) = terminal::size().unwrap_or(SIZE_DEFAULT);
        io::stdout().is_terminal().then_some(width)
    }

    /// Replaces the screen by one write, line by line over what is there, so that nothing is ever
    /// blank in between.
    fn draw(&mut self, lines: &[Line]) -> io::Result<()> {
        let (width, height) = terminal::size().unwrap_or(SIZE_DEFAULT);
        let mut frame = Vec::with_capacity(4096);
        queue!(frame, BeginSynchronizedUpdate, MoveTo(0, 0))?;
        // The last line stays free: to end it would scroll.
        for line in lines.iter().take(usize::from(height.saturating_sub(1))) {
            line.write(usize::from(width), &mut frame)?;
        }
        queue!(
            frame,
            Clear(ClearType::FromCursorDown),
            EndSynchronizedUpdate
        )?;
        self.out.write_all(&frame)?;
        self.out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // On the way out of an error there is nobody left to tell.
        let _ = self.restore();
    }
}

/// How a line is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tone {
    Plain,
    Bold,
    Good,
    Bad,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    text: String,
    tone: Tone,
}

impl Line {
    fn plain(text: impl Into<String>) -> Line {
        Line::toned(text, Tone::Plain)
    }

    fn toned(text: impl Into<String>, tone: Tone) -> Line {
        Line {
            text: text.into(),
            tone,
        }
    }

    /// Writes what fits into `width` columns; all characters used take one.
    fn write(&self, width: usize, frame: &mut Vec<u8>) -> io::Result<()> {
        match self.tone {
            Tone::Plain => {}
            Tone::Bold => queue!(frame, SetAttribute(Attribute::Bold))?,
            Tone::Good => queue!(frame, SetForegroundColor(Color::Green))?,
            Tone::Bad => queue!(frame, SetForegroundColor(Color::Red))?,
        }
        let shown: String = self.text.chars().take(width).collect();
        queue!(frame, Print(shown))?;
        match self.tone {
            Tone::Plain => {}
            Tone::Bold => queue!(frame, SetAttribute(Attribute::Reset))?,
            Tone::Good | Tone::Bad => queue!(frame, ResetColor)?,
        }
        queue!(frame, Clear(ClearType::UntilNewLine), MoveToNextLine(1))
    }
}

impl View<'_> {
    fn switch(&self) -> &'static str {
        match self.phase {
            Phase::Off => "off",
            Phase::OnBeforeSwitch => "on",
            Phase::OnAfterSwitch => "on, other keys are hot now",
        }
    }

    fn lines(&self) -> Vec<Line> {
        let sample = self.sample;
        let mut lines = vec![
            Line::toned("evenkeel demo", Tone::Bold),
            Line::plain(self.title),
            Line::plain(self.workload),
            Line::plain(""),
            Line::toned(
                format!(
                    "{:>3} of {} s   balancing: {}",
                    self.elapsed.as_secs(),
                    self.total.as_secs(),
                    self.switch()
                ),
                Tone::Bold,
            ),
            Line::plain(""),
            Line::plain(format!("{:<12} {:>10}", "server", "requests/s")),
        ];
        lines.extend((0..self.names.len()).map(|server| self.server_line(server)));
        lines.push(Line::plain(""));
        lines.push(Line::plain(format!(
            "{:.0} served/s   max/mean server load {:.2}   hit ratio {:.1} %",
            sample.requests_per_second(),
            sample.max_over_mean(),
            sample.counters.hit_ratio() * 100.0
        )));
        lines.push(Line::plain(format!(
            "p50 {:.1} ms   p99 {:.1} ms   errors {}",
            sample.latency_us(0.5) / 1e3,
            sample.latency_us(0.99) / 1e3,
            sample.counters.errors
        )));
        lines.push(Line::plain(""));
        lines.push(Line::plain(format!(
            "{:<KEY_SHOWN_LEN$} {:>10} {:>8}  state",
            format!(
                "hot keys: {}, replicas: {}",
                sample.hot_keys.len(),
                sample.replicas()
            ),
            "reads/s",
            "replicas"
        )));
        for hot in sample.hot_keys.iter().take(HOT_KEYS_SHOWN) {
            let key: String = hot.key.chars().take(KEY_SHOWN_LEN).collect();
            lines.push(Line::plain(format!(
                "{key:<KEY_SHOWN_LEN$} {:>10.0} {:>8}  {}",
                hot.requests_per_second,
                hot.replicas,
                hot.state.to_lowercase().replace('_', " ")
            )));
        }
        lines.push(Line::plain(""));
        lines
    }

    fn server_line(&self, server: usize) -> Line {
        let (name, sample) = (&self.names[server], self.sample);
        if !sample.server_up[server] {
            return Line::toned(format!("{name:<12} does not answer"), Tone::Bad);
        }
        let rate = sample.server_rate(server);
        let means = rate / sample.server_rate_mean().max(f64::MIN_POSITIVE);
        let bar_len = (means.min(BAR_MEANS) / BAR_MEANS * BAR_LEN as f64).round() as usize;
        let text = format!(
            "{name:<12} {rate:>10.0} {:<BAR_LEN$} {means:.2} x mean",
            "█".repeat(bar_len)
        );
        let tone = if means <= BALANCED {
            Tone::Good
        } else {
            Tone::Bad
        };
        Line::toned(text, tone)
    }

    fn one_line(&self) -> String {
        let sample = self.sample;
        let mut line = format!(
            "{:>3} s  {:<3}  {:>7.0} served/s  max/mean {:.2}  hit {:5.1} %  p50 {:.1} ms  p99 {:.1} ms  \
             errors {}  hot keys {}  replicas {}  req/s of each server:",
            self.elapsed.as_secs(),
            if self.phase.is_on() { "on" } else { "off" },
            sample.requests_per_second(),
            sample.max_over_mean(),
            sample.counters.hit_ratio() * 100.0,
            sample.latency_us(0.5) / 1e3,
            sample.latency_us(0.99) / 1e3,
            sample.counters.errors,
            sample.hot_keys.len(),
            sample.replicas()
        );
        for server in 0..self.names.len() {
            line.push_str(&format!(" {:.0}", sample.server_rate(server)));
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::super::measure::tests::sample;
    use super::*;

    fn with_view<T>(look: impl FnOnce(&View<'_>) -> T) -> T {
        let sample = sample(&[300, 100, 100], &[200]);
        let names = ["server-1", "server-2", "server-3"].map(str::to_owned);
        look(&View {
            title: "3 servers",
            workload: "Zipf",
            phase: Phase::OnBeforeSwitch,
            elapsed: Duration::from_millis(16_400),
            total: Duration::from_secs(45),
            names: &names,
            sample: &sample,
        })
    }

    #[test]
    fn every_server_and_hot_key_is_on_the_screen() {
        let lines = with_view(|view| view.lines());
        let line = |start: &str| {
            let found = lines.iter().find(|line| line.text.starts_with(start));
            found.unwrap_or_else(|| panic!("{start}: {lines:?}"))
        };
        let first = line("server-1");
        assert!(first.text.contains("1.80 x mean"), "{first:?}");
        assert_eq!(first.tone, Tone::Bad);
        assert_eq!(first.text.matches('█').count(), 29);
        assert_eq!(line("server-2").tone, Tone::Good);
        assert!(line("hot  ").text.contains(" 2  hot"));
        assert!(line(" 16 of 45 s").text.contains("on"));
        assert!(line("hot keys: 2, replicas: 3").text.contains("reads/s"));
    }

    #[test]
    fn a_line_says_it_all() {
        let line = with_view(|view| view.one_line());
        assert!(line.starts_with(" 16 s  on "), "{line}");
        for words in ["500 served/s", "max/mean 1.80", "hit  50.0 %", "replicas 3"] {
            assert!(line.contains(words), "{words}: {line}");
        }
        assert!(line.ends_with("300 100 100"), "{line}");
    }

    #[test]
    fn lines_are_cut_to_the_width_of_the_terminal() {
        let mut frame = Vec::new();
        let line = Line::plain("█████ a long line");
        line.write(7, &mut frame).expect("memory can be written to");
        let text = String::from_utf8(frame).expect("text");
        assert!(text.starts_with("█████ a\u{1b}"), "{text:?}");
    }
}
