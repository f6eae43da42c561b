//! A table as a picture: a line a row over the columns, with the intervals of its means as a band. An SVG file, which
//! browsers and forges show.

use flow_credit::stats::Interval;
use plotters::coord::Shift;
use plotters::prelude::*;
use std::error::Error;

const SIZE: (u32, u32) = (960, 480);
/// How much of the width is left for the names of the rows.
const NAMES: u32 = 230;
/// Colours that colour-blind readers can distinguish (Okabe and Ito 2008), then darker ones.
const COLOURS: [RGBColor; 12] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(150, 140, 20),
    RGBColor(120, 60, 20),
    RGBColor(90, 60, 150),
    RGBColor(130, 130, 130),
    RGBColor(0, 80, 60),
];

/// A row: at each column its mean and the mean's interval, as far as they are there.
pub struct Line {
    pub name: String,
    pub points: Vec<(Option<f64>, Option<Interval>)>,
}

/// The picture; nothing where no row has a value. `columns` stand at equal distances along an axis that is called
/// `axis`.
///
/// # Errors
/// If it can't be drawn.
pub fn svg(axis: &str, columns: &[&str], lines: &[Line]) -> Result<Option<String>, Box<dyn Error>> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let ends = points().filter_map(|(_, band)| band.as_ref()).flat_map(|band| [band.low, band.high]);
    let values: Vec<f64> = points().filter_map(|(mean, _)| *mean).chain(ends).filter(|value| value.is_finite()).collect();
    let (low, high) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(*value), high.max(*value)));
    if values.is_empty() {
        return Ok(None);
    }
    let margin = ((high - low) * 0.05).max(1e-9);
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let (chart, names) = root.split_horizontally(SIZE.0 - NAMES);
        draw(&chart, axis, columns, lines, (low - margin)..(high + margin))?;
        legend(&names, lines)?;
        root.present()?;
    }
    Ok(Some(text))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw(area: &Area, axis: &str, columns: &[&str], lines: &[Line], range: std::ops::Range<f64>) -> Result<(), Box<dyn Error>> {
    let last = columns.len().saturating_sub(1) as f64;
    let mut chart =
        ChartBuilder::on(area).margin(14).x_label_area_size(44).y_label_area_size(48).build_cartesian_2d(-0.1..last + 0.1, range)?;
    let name = |x: &f64| match columns.get(x.round() as usize) {
        Some(name) if (x - x.round()).abs() < 1e-6 => (*name).to_owned(),
        _ => String::new(),
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(columns.len().max(2))
        .x_label_formatter(&name)
        .x_desc(axis)
        .max_light_lines(0)
        .draw()?;
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let at = || (0..).map(f64::from).zip(&line.points);
        let below = at().filter_map(|(x, (_, band))| Some((x, band.as_ref()?.low)));
        let above = at().filter_map(|(x, (_, band))| Some((x, band.as_ref()?.high)));
        let band: Vec<(f64, f64)> = above.chain(below.collect::<Vec<_>>().into_iter().rev()).collect();
        chart.draw_series(std::iter::once(Polygon::new(band, colour.mix(0.08))))?;
    }
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let means: Vec<(f64, f64)> = (0..).map(f64::from).zip(&line.points).filter_map(|(x, (mean, _))| Some((x, (*mean)?))).collect();
        chart.draw_series(LineSeries::new(means.iter().copied(), colour.stroke_width(2)))?;
        chart.draw_series(means.iter().map(|point| Circle::new(*point, 3, colour.filled())))?;
    }
    Ok(())
}

/// The names in order of the lines' last values, the highest first.
fn legend(area: &Area, lines: &[Line]) -> Result<(), Box<dyn Error>> {
    let end = |line: &Line| line.points.iter().rev().find_map(|(mean, _)| *mean).unwrap_or(f64::NEG_INFINITY);
    let mut order: Vec<(&Line, &RGBColor)> = lines.iter().zip(COLOURS.iter().cycle()).collect();
    order.sort_by(|a, b| end(b.0).total_cmp(&end(a.0)));
    for (y, (line, colour)) in (30..).step_by(22).zip(order) {
        area.draw(&PathElement::new(vec![(4, y), (28, y)], colour.stroke_width(2)))?;
        area.draw(&Text::new(line.name.clone(), (36, y - 7), ("sans-serif", 14).into_font()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, means: &[Option<f64>]) -> Line {
        let band = |mean: f64| Interval { value: mean, low: mean - 5.0, high: mean + 5.0 };
        Line { name: name.into(), points: means.iter().map(|mean| (*mean, mean.map(band))).collect() }
    }

    #[test]
    fn each_row_is_a_line_with_a_band_and_a_name() {
        let lines = [line("GRPO", &[Some(20.0), Some(50.0), Some(75.0)]), line("told <notes>", &[Some(10.0), None, Some(80.0)])];
        let picture = svg("thousand tokens", &["60", "120", "240"], &lines).unwrap().unwrap();
        assert_eq!((picture.matches("<polygon").count(), picture.matches("<circle").count()), (2, 5), "{picture}");
        for text in ["thousand tokens", "\n60\n", "\n120\n", "\n240\n", "GRPO", "told &lt;notes&gt;"] {
            assert!(picture.contains(text), "{text:?} isn't in {picture}");
        }
        assert!(!picture.contains("stroke=\"#FFFFFF\""), "lines that nobody sees");
        assert!(picture.find("told").unwrap() < picture.find("GRPO").unwrap(), "it ends higher");
        assert_eq!(picture, svg("thousand tokens", &["60", "120", "240"], &lines).unwrap().unwrap());
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        assert_eq!(svg("x", &["a"], &[line("GRPO", &[None])]).unwrap(), None);
        assert!(svg("x", &["a"], &[line("GRPO", &[Some(1.0)])]).unwrap().is_some(), "one point");
    }
}
