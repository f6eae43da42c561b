//! Programs end with this process, however it ends. A process that is killed can't end anything itself, so another one
//! watches: a shell that reads which process groups are alive, and ends them when its input ends, which it does when
//! this process is gone.

use super::descendants::VARIABLE;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Reads `+ GROUP` and `- GROUP`; at the end of its input it asks the groups that are left to end, and kills after five
/// seconds what hasn't, and with it all that has left its group and still has the mark of this process (`$1`) in its
/// environment. A process that is becoming another program has an empty environment for a moment: then it looks again.
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
for round in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    left=""
    for file in $(grep -lsaF -e "$1" /proc/[0-9]*/environ 2>/dev/null); do
        process=${file#/proc/}
        process=${process%/environ}
        [ "$process" = "$$" ] || left="$left $process"
    done
    if [ -n "$left" ]; then
        kill -s KILL $left 2>/dev/null
    elif [ -n "$(grep -LsaF -e = /proc/[0-9]*/environ 2>/dev/null)" ]; then
        sleep 0.1
    else
        break
    fi
done
"#;

/// The watching shell; it ends with this value.
pub(super) struct Warden {
    shell: Child,
    groups: Option<ChildStdin>,
}

impl Warden {
    /// Starts it in a group of its own, so that what is done to this process's group isn't done to it. `mark` is what
    /// the marks of all programs begin with. None where there is no shell: then programs still end with a run that ends
    /// by itself.
    pub fn start(mark: &str) -> Option<Warden> {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", WATCH, "sh", &format!("{VARIABLE}={mark}.")])
            .env_remove(VARIABLE)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
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
    use std::io::BufRead;
    use std::time::{Duration, Instant};

    /// A program that starts another one, which would go on for a minute, in a group of its own.
    fn program() -> Child {
        Command::new("/bin/sh").args(["-c", "sleep 60 & wait"]).process_group(0).spawn().unwrap()
    }

    /// A program that starts one in a session of its own, which a signal to its group doesn't reach, and says which
    /// process that is.
    const ESCAPE: &str = "setsid sh -c 'echo $$; exec sleep 600' & wait";

    #[test]
    fn what_leaves_its_group_is_killed_too() {
        let mark = format!("test-{}-warden", std::process::id());
        let mut command = Command::new("/bin/sh");
        command.args(["-c", ESCAPE]).env(VARIABLE, format!("{mark}.1")).process_group(0).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let escaped = std::path::PathBuf::from(format!("/proc/{}/environ", line.trim()));
        let alive = || std::fs::read(&escaped).is_ok();
        let mut warden = Warden::start(&mark).unwrap();
        warden.add(child.id());
        drop(warden);
        child.wait().unwrap();
        let start = Instant::now();
        while alive() && start.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(!alive(), "{} lives on", line.trim());
    }

    #[test]
    fn what_is_left_when_the_input_ends_is_killed_with_all_that_it_started() {
        let (mut watched, mut removed, mut other) = (program(), program(), program());
        let mut warden = Warden::start("none-of-these").unwrap();
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
