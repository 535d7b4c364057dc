//! What `ostler top` shows, and how keys change it. Nothing here touches the terminal or the system.

use super::feed::{Action, Snapshot, Update};
use super::instance::{Home, Instance};
use super::keys::Key;
use super::sort::Sort;

/// Longest filter, in characters.
const LONGEST_FILTER: usize = 64;

/// What fills the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Page {
    #[default]
    List,
    /// One instance, from this line on.
    Detail(usize),
}

/// What has the keys instead of the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Prompt {
    #[default]
    None,
    Help,
    Filter,
    Confirm(Action),
}

/// What a key asks of the loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    Quit,
    /// Read the events of this instance.
    Focus(Option<Home>),
    Act(Action),
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) snapshot: Snapshot,
    pub(super) sort: Sort,
    pub(super) is_reversed: bool,
    pub(super) filter: String,
    pub(super) page: Page,
    pub(super) prompt: Prompt,
    /// Result of the last action, or why there is no newer snapshot.
    pub(super) message: Option<String>,
    /// Age of the snapshot in seconds, if it is too old.
    pub(super) stale: Option<u64>,
    /// Whether an action runs.
    is_busy: bool,
    /// Key of the selected instance.
    selected: Option<String>,
}

impl State {
    pub(super) fn new(snapshot: Snapshot) -> Self {
        let mut state = Self { snapshot, ..Self::default() };
        state.select(0);
        state
    }

    /// Instances that match the filter, sorted.
    pub(super) fn shown(&self) -> Vec<&Instance> {
        let filter = self.filter.to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&filter);
        let is_match = |one: &&Instance| {
            has(&one.server) || has(&one.state) || has(&one.client) || has(&one.name())
        };
        let mut shown: Vec<&Instance> = self.snapshot.instances.iter().filter(is_match).collect();
        shown.sort_by(|one, other| {
            let order = self.sort.compare(one, other);
            let order = if self.is_reversed { order.reverse() } else { order };
            order.then_with(|| one.server.cmp(&other.server)).then_with(|| one.key.cmp(&other.key))
        });
        shown
    }

    /// Position of the selected instance among those that are shown.
    pub(super) fn position(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.shown().iter().position(|one| one.key == *selected)
    }

    /// The selected instance, also if the filter hides it.
    pub(super) fn instance(&self) -> Option<&Instance> {
        let selected = self.selected.as_ref()?;
        self.snapshot.instances.iter().find(|one| one.key == *selected)
    }

    fn select(&mut self, position: usize) {
        let shown = self.shown();
        let position = position.min(shown.len().saturating_sub(1));
        self.selected = shown.get(position).map(|one| one.key.clone());
    }

    /// Takes over an update.
    pub(super) fn update(&mut self, update: Update) {
        match update {
            Update::Failed(message) => self.message = Some(message),
            Update::Done(message) => {
                self.message = Some(message);
                self.is_busy = false;
            }
            Update::Snapshot(snapshot) => {
                let position = self.position();
                self.snapshot = snapshot;
                let is_lost = self.position().is_none();
                if is_lost && self.page == Page::List {
                    self.select(position.unwrap_or(0));
                }
            }
        }
    }

    /// Reacts to a key; `height` is the number of lines that a page shows.
    pub(super) fn press(&mut self, key: Key, height: usize) -> Effect {
        if key == Key::Interrupt {
            return Effect::Quit;
        }
        if !self.is_busy {
            self.message = None;
        }
        match std::mem::take(&mut self.prompt) {
            Prompt::None => match self.page {
                Page::List => self.press_in_list(key, height),
                Page::Detail(line) => self.press_in_detail(key, line, height),
            },
            Prompt::Help => Effect::None,
            Prompt::Filter => self.press_in_filter(key),
            Prompt::Confirm(action) => self.confirm(key, action),
        }
    }

    fn press_in_list(&mut self, key: Key, height: usize) -> Effect {
        let at = self.position().unwrap_or(0);
        match key {
            Key::Up | Key::Char('k') => self.select(at.saturating_sub(1)),
            Key::Down | Key::Char('j') => self.select(at + 1),
            Key::PageUp => self.select(at.saturating_sub(height)),
            Key::PageDown => self.select(at + height),
            Key::Home | Key::Char('g') => self.select(0),
            Key::End | Key::Char('G') => self.select(usize::MAX),
            Key::Char('s') => self.sort = self.sort.next(),
            Key::Char('i') => self.is_reversed = !self.is_reversed,
            Key::Char('/') => self.prompt = Prompt::Filter,
            Key::Escape => self.set_filter(String::new()),
            Key::Enter => return self.open(),
            key => return self.press_anywhere(key),
        }
        Effect::None
    }

    fn press_in_detail(&mut self, key: Key, line: usize, height: usize) -> Effect {
        self.page = Page::Detail(match key {
            Key::Up | Key::Char('k') => line.saturating_sub(1),
            Key::Down | Key::Char('j') => line.saturating_add(1),
            Key::PageUp => line.saturating_sub(height),
            Key::PageDown => line.saturating_add(height),
            Key::Home | Key::Char('g') => 0,
            Key::End | Key::Char('G') => usize::MAX,
            Key::Escape | Key::Enter | Key::Backspace => {
                self.page = Page::List;
                let position = self.position();
                self.select(position.unwrap_or(0));
                return Effect::Focus(None);
            }
            key => return self.press_anywhere(key),
        });
        Effect::None
    }

    fn press_anywhere(&mut self, key: Key) -> Effect {
        match key {
            Key::Char('q') => return Effect::Quit,
            Key::Char('?' | 'h') => self.prompt = Prompt::Help,
            Key::Char('x') => self.ask_to_stop(),
            Key::Char('r') => self.ask_to_restart(),
            _ => {}
        }
        Effect::None
    }

    fn press_in_filter(&mut self, key: Key) -> Effect {
        let mut filter = self.filter.clone();
        match key {
            Key::Enter => return Effect::None,
            Key::Escape => filter.clear(),
            Key::Backspace => drop(filter.pop()),
            Key::Char(c) if filter.chars().count() < LONGEST_FILTER => filter.push(c),
            _ => {}
        }
        self.set_filter(filter);
        if key != Key::Escape {
            self.prompt = Prompt::Filter;
        }
        Effect::None
    }

    fn set_filter(&mut self, filter: String) {
        self.filter = filter;
        if self.position().is_none() {
            self.select(0);
        }
    }

    fn open(&mut self) -> Effect {
        let Some(instance) = self.instance() else { return Effect::None };
        let home = instance.home.clone();
        self.page = Page::Detail(0);
        self.snapshot.events.clear();
        Effect::Focus(home)
    }

    fn ask_to_stop(&mut self) {
        let Some(instance) = self.instance() else { return };
        match instance.id {
            Some(id) => {
                let server = instance.server.clone();
                self.prompt = Prompt::Confirm(Action::Stop { id, server });
            }
            None => self.message = Some("it has no id yet".into()),
        }
    }

    fn ask_to_restart(&mut self) {
        let Some(Instance { server, home, .. }) = self.instance() else { return };
        if let Some(home) = home {
            let (socket, server) = (home.socket.clone(), server.clone());
            self.prompt = Prompt::Confirm(Action::Restart { socket, server });
        } else {
            let message = format!("{server}: only its client can restart it; x stops it");
            self.message = Some(message);
        }
    }

    fn confirm(&mut self, key: Key, action: Action) -> Effect {
        match key {
            Key::Char('y' | 'Y') if self.is_busy => {
                self.message = Some("the last action has not ended yet".into());
                Effect::None
            }
            Key::Char('y' | 'Y') => {
                self.is_busy = true;
                self.message = Some("in progress".into());
                Effect::Act(action)
            }
            _ => {
                self.message = Some("nothing was done".into());
                Effect::None
            }
        }
    }
}
