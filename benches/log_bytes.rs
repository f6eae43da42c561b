//! Log bytes a row against JSON lines: `cargo bench --bench log_bytes -- RUN` reads a run's committed rows, writes the
//! same rows as JSON lines in memory, and prints both sizes by node. The log's size counts whole Parquet files, footers
//! with them.

use flow_log::{read, LogError, Run};
use std::path::Path;

fn main() -> Result<(), LogError> {
    let Some(root) = std::env::args().skip(1).find(|a| !a.starts_with("--")) else {
        println!("usage: cargo bench --bench log_bytes -- RUN (skipped: no run given)");
        return Ok(());
    };
    let run = Run::open(Path::new(&root))?;
    let manifest = run.manifest()?;
    println!("{:<16} {:>6} {:>10} {:>12} {:>12} {:>8}", "node", "files", "rows", "bytes/row", "JSON/row", "ratio");
    let mut total = (0, 0, 0, 0);
    for node in &manifest.info.nodes {
        let (mut files, mut rows, mut bytes) = (0, 0, 0);
        for part in manifest.parts(&node.id) {
            (files, rows, bytes) = (files + 1, rows + part.rows, bytes + part.bytes);
        }
        let mut lines = 0;
        for batch in read(&run, &node.id)? {
            let mut text = Vec::new();
            arrow::json::LineDelimitedWriter::new(&mut text).write(&batch)?;
            lines += text.len() as u64;
        }
        line(&node.id, files, rows, bytes, lines);
        total = (total.0 + files, total.1 + rows, total.2 + bytes, total.3 + lines);
    }
    line("all", total.0, total.1, total.2, total.3);
    Ok(())
}

fn line(name: &str, files: u64, rows: u64, bytes: u64, lines: u64) {
    let each = |n: u64| n as f64 / rows.max(1) as f64;
    println!("{name:<16} {files:>6} {rows:>10} {:>12.1} {:>12.1} {:>8.1}", each(bytes), each(lines), lines as f64 / bytes.max(1) as f64);
}
