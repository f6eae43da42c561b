//! A process of Python that runs a function: messages of a header and a body over its standard streams, as `flow_op`
//! speaks them. What the function prints goes to a file of the run.

use super::description::{unchanged, Description, Folder};
use super::trust;
use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::writer::StreamWriter;
use crossbeam_channel::{bounded, Receiver, RecvTimeoutError};
use flow_core::child::module_path;
use flow_env::process::Programs;
use flow_model::FunctionSettings;
use parking_lot::Mutex;
use serde_json::{json, Value};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The time limit for a function's description: its modules are loaded.
const DESCRIBING: Duration = Duration::from_secs(120);

/// The module that answers.
const MODULE: &str = "flow_op";
/// Starts it. The working folder is no place to import from: a file `json.py` there would be Python's.
const START: &str = "import sys; del sys.path[0]; from flow_op.serve import serve; sys.exit(serve())";
/// The version of the messages.
const PROTOCOL: u64 = 1;
/// The longest header and the longest body of an answer, in bytes.
const LONGEST: (u32, u64) = (64 << 20, 64 << 30);
/// The last lines that it printed which an error shows, and how much of each.
const TAIL: (usize, usize) = (12, 300);
/// Bytes of prints that are kept.
const PRINTS: u64 = 16 << 20;

/// A message as it came.
type Message = (Value, Vec<u8>);

/// A process that has loaded a function.
pub struct PythonProcess {
    programs: Programs,
    id: u32,
    to: crossbeam_channel::Sender<Vec<u8>>,
    from: Receiver<io::Result<Message>>,
    tail: Arc<Mutex<VecDeque<String>>>,
    /// Its function's file, for as long as it runs.
    _folder: Folder,
}

impl PythonProcess {
    /// Starts Python and asks what the function says of itself. What it prints is appended to the file `prints`.
    ///
    /// # Errors
    /// In words: Python or the function can't be loaded, or the function isn't the one that the run began with.
    pub fn start(with: &FunctionSettings, programs: &Programs, prints: Option<&Path>) -> Result<(PythonProcess, Description), String> {
        trust::allowed(with)?;
        let folder = Folder::of(with)?;
        let asked = json!({ "do": "describe", "protocol": PROTOCOL, "call": folder.call, "folder": folder.path });
        let command: Vec<String> = with.python.iter().cloned().chain(["-u", "-c", START].map(String::from)).collect();
        let mut set: Vec<(&str, OsString)> =
            [("PYTHONHASHSEED", "0"), ("PYTHONUTF8", "1"), ("PYTHONDONTWRITEBYTECODE", "1"), ("OPENBLAS_NUM_THREADS", "1")]
                .map(|(name, value)| (name, value.into()))
                .into();
        set.push(("FLOW_OP_MEMORY", ((with.memory_gb * 1e9) as u64).to_string().into()));
        set.extend(module_path(MODULE)?.map(|path| ("PYTHONPATH", path)));
        let (id, pipes) = programs.start(&command, &with.pass, &set).map_err(|error| error.to_string())?;
        let (to, requests) = bounded::<Vec<u8>>(1);
        let (answers, from) = bounded(1);
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let mut input = pipes.input;
        // A process that is gone doesn't read: its end shows in its output.
        thread(move || drop(requests.iter().try_for_each(|bytes| input.write_all(&bytes).and_then(|()| input.flush()))))?;
        let mut output = BufReader::with_capacity(1 << 16, pipes.output);
        thread(move || {
            while let Some(message) = read(&mut output).transpose() {
                let failed = message.is_err();
                if answers.send(message).is_err() || failed {
                    return;
                }
            }
        })?;
        let (kept, file) = (tail.clone(), prints.and_then(|path| File::options().create(true).append(true).open(path).ok()));
        thread(move || prints_of(pipes.errors, &kept, file))?;
        let process = PythonProcess { programs: programs.clone(), id, to, from, tail, _folder: folder };
        let lost = |error: String| match error.contains(&format!("No module named {MODULE}")) {
            true => format!("{} has no `{MODULE}`: install flow's wheel for it, or start flow from its checkout", with.python.join(" ")),
            false => error,
        };
        let (answer, _) = process.ask(&asked, None, DESCRIBING).map_err(lost)?;
        let description: Description =
            serde_json::from_value(answer).map_err(|error| format!("what `{}` says of itself can't be read: {error}", with.call))?;
        unchanged(with, &description)?;
        if prints.is_some() {
            trust::remember(with);
        }
        Ok((process, description))
    }

    /// Sends a request and waits for its answer: what it says, and its rows.
    ///
    /// # Errors
    /// In words: what the function raised with its lines, or how the process ended.
    pub fn ask(&self, header: &Value, rows: Option<&RecordBatch>, limit: Duration) -> Result<(Value, Option<RecordBatch>), String> {
        let request = written(header, rows).map_err(|error| error.to_string())?;
        // Refused when the process is gone, which its output tells.
        let _ = self.to.send(request);
        let (mut answer, body) = match self.from.recv_timeout(limit) {
            Ok(Ok(message)) => message,
            Ok(Err(error)) => return Err(format!("its process spoke out of turn ({error}){}", self.last_words())),
            Err(RecvTimeoutError::Timeout) => {
                self.programs.kill(self.id);
                return Err(format!(
                    "the function took more than {} s (`seconds`), and was ended{}",
                    limit.as_secs_f64(),
                    self.last_words()
                ));
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.programs.ended(self.id).map_or(String::new(), |status| format!(" ({status})"));
                return Err(format!("the process of the function ended{status}{}", self.last_words()));
            }
        };
        if let Some(error) = answer.get("error") {
            return Err(in_words(error));
        }
        let rows = if body.is_empty() { None } else { Some(decoded(body).map_err(|error| format!("its rows can't be read: {error}"))?) };
        Ok((answer["ok"].take(), rows))
    }

    /// What it printed last, for an error.
    fn last_words(&self) -> String {
        // What it wrote before its end may still be on its way.
        std::thread::sleep(Duration::from_millis(50));
        let tail = self.tail.lock();
        let lines: Vec<&str> = tail.iter().map(String::as_str).collect();
        if lines.is_empty() {
            String::new()
        } else {
            format!("; it last printed:\n{}", lines.join("\n"))
        }
    }
}

impl Drop for PythonProcess {
    fn drop(&mut self) {
        self.programs.kill(self.id);
    }
}

/// An error as `flow_op` tells it: one sentence, and the lines of the user's code that it came through.
fn in_words(error: &Value) -> String {
    let text = |key: &str| error[key].as_str().unwrap_or_default();
    let place = match (error["file"].as_str(), error["line"].as_u64()) {
        (Some(file), Some(line)) if !file.starts_with('<') => {
            format!(" ({}:{line})", Path::new(file).file_name().unwrap_or_default().to_string_lossy())
        }
        _ => String::new(),
    };
    let traceback = if text("traceback").is_empty() { String::new() } else { format!("\n{}", text("traceback").trim_end()) };
    format!("{}{place}{traceback}", text("message"))
}

fn thread(body: impl FnOnce() + Send + 'static) -> Result<(), String> {
    std::thread::Builder::new().name(MODULE.into()).spawn(body).map(drop).map_err(|error| format!("no thread: {error}"))
}

/// A message in bytes: the lengths of header and body, the header as JSON, the body as a stream of Arrow.
fn written(header: &Value, rows: Option<&RecordBatch>) -> Result<Vec<u8>, arrow::error::ArrowError> {
    let text = header.to_string();
    let mut bytes = Vec::with_capacity(12 + text.len() + rows.map_or(0, |rows| rows.get_array_memory_size() + 4096));
    bytes.extend_from_slice(&[0; 12]);
    bytes.extend_from_slice(text.as_bytes());
    let head = bytes.len();
    if let Some(rows) = rows {
        let mut writer = StreamWriter::try_new(&mut bytes, &rows.schema())?;
        writer.write(rows)?;
        writer.finish()?;
    }
    let body = (bytes.len() - head) as u64;
    bytes[..4].copy_from_slice(&(text.len() as u32).to_le_bytes());
    bytes[4..12].copy_from_slice(&body.to_le_bytes());
    Ok(bytes)
}

/// The next message; none at the end of the stream.
fn read(from: &mut impl Read) -> io::Result<Option<Message>> {
    let bad = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let mut lengths = [0; 12];
    match from.read_exact(&mut lengths) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let [a, b, c, d, body @ ..] = lengths;
    let (head, body) = (u32::from_le_bytes([a, b, c, d]), u64::from_le_bytes(body));
    if head > LONGEST.0 || body > LONGEST.1 {
        return Err(bad(format!("a message of {head} and {body} bytes")));
    }
    let part = |from: &mut dyn Read, length: u64| {
        let mut bytes = Vec::new();
        from.take(length).read_to_end(&mut bytes)?;
        if bytes.len() as u64 == length {
            Ok(bytes)
        } else {
            Err(io::Error::from(io::ErrorKind::UnexpectedEof))
        }
    };
    let header = part(from, head.into())?;
    let header = serde_json::from_slice(&header).map_err(|error| bad(error.to_string()))?;
    Ok(Some((header, part(from, body)?)))
}

/// The rows of a body: one batch.
fn decoded(body: Vec<u8>) -> Result<RecordBatch, String> {
    let (mut decoder, mut bytes) = (StreamDecoder::new(), Buffer::from_vec(body));
    let rows = decoder.decode(&mut bytes).map_err(|error| error.to_string())?.ok_or("there is no batch")?;
    Ok(rows)
}

/// Reads what the function prints: the last lines are remembered, and the first part goes to the file.
fn prints_of(stream: impl Read, tail: &Mutex<VecDeque<String>>, mut file: Option<File>) {
    let mut stream = BufReader::new(stream);
    let (mut line, mut kept) = (Vec::new(), 0);
    while matches!(io::Read::by_ref(&mut stream).take(1 << 16).read_until(b'\n', &mut line), Ok(read) if read > 0) {
        kept += line.len() as u64;
        if let Some(file) = file.as_mut().filter(|_| kept <= PRINTS) {
            // A full disk ends a run where its rows are written.
            let _ = file.write_all(&line);
        }
        let mut tail = tail.lock();
        tail.push_back(String::from_utf8_lossy(&line).trim_end().chars().take(TAIL.1).collect());
        if tail.len() > TAIL.0 {
            tail.pop_front();
        }
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Float32Array};

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let rows = flow_core::row::batch(vec![("reward", Arc::new(Float32Array::from(vec![0.5, 1.0])) as ArrayRef)]).unwrap();
        let header = json!({ "do": "run", "text": "ä" });
        let mut bytes = written(&header, Some(&rows)).unwrap();
        bytes.extend(written(&json!({}), None).unwrap());
        let mut from = &bytes[..];
        let (answer, body) = read(&mut from).unwrap().unwrap();
        assert_eq!((answer, decoded(body).unwrap()), (header, rows));
        assert_eq!(read(&mut from).unwrap(), Some((json!({}), vec![])));
        assert_eq!(read(&mut from).unwrap(), None);
        assert!(read(&mut &bytes[..40]).is_err(), "a message that is cut off");
        assert!(read(&mut &[255u8; 12][..]).unwrap_err().to_string().contains("a message of"));
    }
}
