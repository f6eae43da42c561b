//! `flow report`: runs as one HTML file that needs no network.

mod ask;
mod chart;
mod figures;
mod measured;
mod passes;
mod source;
mod time;
mod trips;

use super::error::{Error, Result};
use super::output::{answer, CommandResult, OutputFormat};
use super::tokens::TokenCounts;
use crate::files;
use clap::Args;
use measured::RunMeasurements;
use serde_json::{json, Value};
use source::{families, ReportRun};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct ReportArgs {
    /// The runs' folders. Runs of one pipeline and several seeds are one curve with a band
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// The file to write; report.html in the run's folder, or here for several runs, unless given
    #[arg(long)]
    out: Option<PathBuf>,
    #[arg(long, value_enum, default_value = "text")]
    format: OutputFormat,
}

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: [&str; 3] = [include_str!("draw.js"), include_str!("browse.js"), include_str!("page.js")];

impl ReportArgs {
    pub fn run(self) -> CommandResult {
        let sources = self.runs.iter().map(|r| ReportRun::open(r)).collect::<Result<Vec<_>>>()?;
        if let Some(empty) = sources.iter().find(|s| s.manifest.committed.is_empty()) {
            return Err(Error::Request(format!("{} has no committed iteration yet: there is nothing to draw", empty.folder)));
        }
        let data = data(&sources)?;
        let page = page(&sources, &data);
        let (out, written) = match (self.out, self.runs.as_slice()) {
            (Some(out), _) => (out.clone(), std::fs::write(out, &page)),
            // The folder may be somebody else's: a link in it isn't followed.
            (None, [only]) => {
                (only.join("report.html"), files::create(&only.join("report.html")).and_then(|mut f| f.write_all(page.as_bytes())))
            }
            (None, _) => ("report.html".into(), std::fs::write("report.html", &page)),
        };
        written.map_err(|e| Error::Request(format!("{}: {e}; --out FILE names another place", out.display())))?;
        let tokens = TokenCounts::of(sources.iter().map(|s| &s.manifest));
        let (charts, trips) = (length(&data["charts"]), length(&data["browser"]["trips"]));
        answer(&match self.format {
            OutputFormat::Json => {
                json!({ "file": out.display().to_string(), "bytes": page.len(), "runs": data["runs"].as_array().map_or(0, Vec::len),
                    "curves": data["families"], "charts": charts, "episodes": trips, "tokens": tokens.json() })
                .to_string()
            }
            OutputFormat::Text => format!(
                "{} of {} drawn: {charts} charts, {trips} episodes, {:.1} MB{}\n{}: open it in a browser",
                if sources.len() == 1 { "1 run".into() } else { format!("{} runs", sources.len()) },
                if length(&data["families"]) == 1 { "1 pipeline".into() } else { format!("{} pipelines", length(&data["families"])) },
                page.len() as f64 / 1e6,
                tokens.line().map(|line| format!("\n{line}")).unwrap_or_default(),
                out.display()
            ),
        });
        Ok(ExitCode::SUCCESS)
    }
}

fn length(list: &Value) -> usize {
    list.as_array().map_or(0, Vec::len)
}

/// All that the page shows.
fn data(sources: &[ReportRun]) -> Result<Value> {
    let families = families(sources);
    let measured = sources.iter().map(RunMeasurements::of).collect::<Result<Vec<_>>>()?;
    let mut charts = figures::charts(sources, &families, &measured);
    charts.extend(passes::charts(&families, &measured));
    let (charts, zero): (Vec<_>, Vec<_>) = charts.into_iter().partition(|chart| !chart.is_zero());
    let mut trips = trips::EpisodeBrowser::default();
    for (number, source) in sources.iter().enumerate() {
        trips.add(number, source)?;
    }
    Ok(json!({
        "runs": sources.iter().map(ReportRun::json).collect::<Vec<_>>(),
        "families": families.iter().map(|f| json!({ "label": f.label, "runs": f.runs })).collect::<Vec<_>>(),
        "charts": charts.into_iter().map(chart::Chart::json).collect::<Vec<_>>(),
        "zero": zero.into_iter().map(|chart| chart.title).collect::<Vec<_>>(),
        "passes": passes::passes(&families, &measured),
        "time": sources.iter().map(time::time).collect::<Vec<_>>(),
        "browser": trips.json(),
    }))
}

/// The page: style, data and script in one text.
fn page(sources: &[ReportRun], data: &Value) -> String {
    let mut names: Vec<&str> = Vec::new();
    for source in sources {
        let name = source.manifest.info.name.as_str();
        names.extend((!names.contains(&name)).then_some(name));
    }
    let title: String = names.join(", ").replace('&', "&amp;").replace('<', "&lt;");
    // In JSON a `<` is only ever inside a text, and there it may be written so: nothing can end the script element.
    let data = data.to_string().replace('<', "\\u003c");
    // The data come last: nothing in them is taken for a place to fill.
    let page = PAGE.replace("{{title}}", &title).replace("{{style}}", STYLE).replace("{{script}}", &SCRIPT.concat());
    page.replacen("{{data}}", &data, 1)
}
