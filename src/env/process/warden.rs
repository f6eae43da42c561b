//! Programs end with this process, however it ends. A process that is killed can't end anything itself, so another one watches: a
//! shell that reads which process groups are alive, and ends them when its input ends, which it does when this process is gone.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Reads `+ GROUP` and `- GROUP`; at the end of its input it asks the groups that are left to end, and kills after five seconds what
/// hasn't.
const WATCH: &str = r#"
alive=" "
while read -r sign group; do
    case $sign in
        +) alive="$alive$group " ;;
        -) alive="${alive%% $group *} ${alive#* $group }" ;;
    esac
done
for group in $alive; do kill -s TERM -- "-$group" 2>/dev/null; done
left=50
for group in $alive; do
    while [ $left -gt 0 ] && kill -s 0 -- "-$group" 2>/dev/null; do
        left=$((left - 1))
        sleep 0.1
    done
    kill -s KILL -- "-$group" 2>/dev/null
done
"#;

/// The watching shell; it ends with this value.
pub(super) struct Warden {
    shell: Child,
    groups: Option<ChildStdin>,
}

impl Warden {
    /// Starts it in a group of its own, so that what is done to this process's group isn't done to it. None where there is no shell:
    /// then programs still end with a run that ends by itself.
    pub fn start() -> Option<Warden> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", WATCH]).process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut shell = command.spawn().ok()?;
        let groups = shell.stdin.take();
        Some(Warden { shell, groups })
    }

    /// The group has been started.
    pub fn add(&mut self, group: u32) {
        self.say('+', group);
    }

    /// The group is about to be waited for: its number may soon mean another one.
    pub fn remove(&mut self, group: u32) {
        self.say('-', group);
    }

    fn say(&mut self, sign: char, group: u32) {
        // A shell that is gone watches nothing more; the run goes on without.
        let _ = self.groups.as_mut().map(|groups| writeln!(groups, "{sign} {group}"));
    }
}

impl Drop for Warden {
    fn drop(&mut self) {
        self.groups.take(); // the end of its input ends it
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// A program that starts another one, which would go on for a minute, in a group of its own.
    fn program() -> Child {
        Command::new("/bin/sh").args(["-c", "sleep 60 & wait"]).process_group(0).spawn().unwrap()
    }

    #[test]
    fn what_is_left_when_the_input_ends_is_killed_with_all_that_it_started() {
        let (mut watched, mut removed, mut other) = (program(), program(), program());
        let mut warden = Warden::start().unwrap();
        for child in [&watched, &removed, &other] {
            warden.add(child.id());
        }
        warden.remove(removed.id());
        let start = Instant::now();
        drop(warden);
        for child in [&mut watched, &mut other] {
            assert!(!child.wait().unwrap().success());
        }
        assert!(start.elapsed() < Duration::from_secs(20), "it took {:?}", start.elapsed());
        assert_eq!(removed.try_wait().unwrap(), None, "it is nobody's business any more");
        let group = rustix::process::Pid::from_child(&removed);
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
        removed.wait().unwrap();
    }
}
