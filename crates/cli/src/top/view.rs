//! What the person at the terminal has chosen, and what keys change of it.

use super::figures::Order;
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::time::Duration;

/// Shortest and longest time between two looks.
pub const INTERVAL_MIN: Duration = Duration::from_millis(100);
pub const INTERVAL_MAX: Duration = Duration::from_secs(3600);

/// Longest text by which servers and keys are filtered.
const FILTER_MAX: usize = 250;

/// What stands below the servers where there is room for one more box.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Panel {
    #[default]
    Keys,
    Proxies,
    Plans,
    Events,
}

impl Panel {
    fn next(self) -> Panel {
        match self {
            Panel::Keys => Panel::Proxies,
            Panel::Proxies => Panel::Plans,
            Panel::Plans => Panel::Events,
            Panel::Events => Panel::Keys,
        }
    }
}

/// What takes the place of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    Heat,
    Help,
    /// All of the server that is selected.
    Details,
}

/// What the person at the terminal has chosen.
#[derive(Clone, Debug)]
pub struct View {
    pub order: Order,
    pub reversed: bool,
    pub paused: bool,
    pub panel: Panel,
    pub page: Option<Page>,
    /// Position of a server among those that are listed.
    pub selected: usize,
    /// Only servers and keys with this in their names are listed.
    pub filter: String,
    /// The filter is being typed.
    pub types_filter: bool,
    /// Time between two looks.
    pub interval: Duration,
}

impl View {
    /// Nothing was chosen yet but the time between two looks.
    pub fn new(interval: Duration) -> View {
        View {
            order: Order::default(),
            reversed: false,
            paused: false,
            panel: Panel::default(),
            page: None,
            selected: 0,
            filter: String::new(),
            types_filter: false,
            interval,
        }
    }

    /// Whether something of this name is listed.
    pub fn lists(&self, name: &str) -> bool {
        name.contains(&self.filter)
    }

    /// What a key does while this many servers are listed; whether it was the last.
    pub fn press(&mut self, key: KeyEvent, servers: usize) -> bool {
        if key.kind == KeyEventKind::Release {
            return false;
        }
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return true;
        }
        if self.types_filter {
            self.type_filter(key.code);
            return false;
        }
        match key.code {
            KeyCode::Char('q') => return true,
            KeyCode::Esc if self.page.is_none() && self.filter.is_empty() => return true,
            KeyCode::Esc if self.page.is_none() => self.filter.clear(),
            KeyCode::Esc => self.page = None,
            KeyCode::Char('?') => self.turn_to(Page::Help),
            KeyCode::Char('h') => self.turn_to(Page::Heat),
            KeyCode::Enter => self.turn_to(Page::Details),
            KeyCode::Tab => self.panel = self.panel.next(),
            KeyCode::Char('/') => self.types_filter = true,
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Char('p') => self.paused = !self.paused,
            KeyCode::Char('+') => self.interval = (self.interval * 2).min(INTERVAL_MAX),
            KeyCode::Char('-') => self.interval = (self.interval / 2).max(INTERVAL_MIN),
            KeyCode::Down => self.selected = (self.selected + 1).min(servers.saturating_sub(1)),
            KeyCode::Up => self.selected = self.selected.saturating_sub(1),
            _ => {}
        }
        false
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char(letter) if self.filter.len() < FILTER_MAX => self.filter.push(letter),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Esc => {
                self.filter.clear();
                self.types_filter = false;
            }
            KeyCode::Enter => self.types_filter = false,
            _ => {}
        }
    }

    /// Shows this in place of the tables, or these again.
    fn turn_to(&mut self, page: Page) {
        self.page = (self.page != Some(page)).then_some(page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(view: &mut View, code: KeyCode) -> bool {
        view.press(KeyEvent::new(code, KeyModifiers::NONE), 3)
    }

    #[test]
    fn escape_goes_back_before_it_ends() {
        let mut view = View::new(Duration::from_secs(1));
        assert!(!press(&mut view, KeyCode::Char('?')));
        assert_eq!(view.page, Some(Page::Help));
        press(&mut view, KeyCode::Char('h'));
        assert_eq!(view.page, Some(Page::Heat));
        assert!(!press(&mut view, KeyCode::Esc));
        assert_eq!(view.page, None);
        assert!(press(&mut view, KeyCode::Esc));
    }

    #[test]
    fn a_filter_takes_letters_that_are_commands_elsewhere() {
        let mut view = View::new(Duration::from_secs(1));
        for code in ['/', 'q', 's', 'x'].map(KeyCode::Char) {
            assert!(!press(&mut view, code));
        }
        press(&mut view, KeyCode::Backspace);
        press(&mut view, KeyCode::Enter);
        assert_eq!(view.filter, "qs");
        assert!(view.lists("a-qs-b") && !view.lists("a"));
        assert!(!press(&mut view, KeyCode::Esc));
        assert_eq!(view.filter, "");
    }

    #[test]
    fn what_is_chosen_stays_within_bounds() {
        let mut view = View::new(Duration::from_secs(1));
        for _ in 0..20 {
            press(&mut view, KeyCode::Down);
            press(&mut view, KeyCode::Char('+'));
        }
        assert_eq!((view.selected, view.interval), (2, INTERVAL_MAX));
        for _ in 0..20 {
            press(&mut view, KeyCode::Up);
            press(&mut view, KeyCode::Char('-'));
        }
        assert_eq!((view.selected, view.interval), (0, INTERVAL_MIN));
        let panels = [Panel::Proxies, Panel::Plans, Panel::Events, Panel::Keys];
        for panel in panels {
            press(&mut view, KeyCode::Tab);
            assert_eq!(view.panel, panel);
        }
    }
}
