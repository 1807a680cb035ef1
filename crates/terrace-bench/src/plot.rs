//! Charts of runs, as SVG.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;

/// Width and height of a chart.
const SIZE: (u32, u32) = (900, 420);

/// Whatever drawing fails with: as a rule, the file cannot be written.
pub type PlotError = Box<dyn Error + Send + Sync>;

/// One run in a chart.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its points, by rising x.
    pub points: Vec<(f64, f64)>,
}

/// Draws operations in a second over seconds. Each series holds operations per 100 ms, the last,
/// which the end of the run cut off, left out.
///
/// Errors: the file cannot be written.
pub fn throughput(path: &Path, title: &str, runs: &[(String, &[u64])]) -> Result<(), PlotError> {
    let series: Vec<Series> = runs
        .iter()
        .map(|(name, slots)| {
            let whole = slots.iter().take(slots.len().saturating_sub(1)).enumerate();
            let point = |(at, count): (usize, &u64)| (at as f64 / 10.0, *count as f64 * 10.0);
            Series { name: name.clone(), points: whole.map(point).collect() }
        })
        .collect();
    draw(path, title, "seconds", "operations per second", &series)
}

/// Draws latencies in microseconds, as powers of ten, over quantiles, as numbers of nines.
///
/// Errors: the file cannot be written.
pub fn latency(
    path: &Path,
    title: &str,
    runs: &[(String, &[(f64, f64)])],
) -> Result<(), PlotError> {
    let series: Vec<Series> = runs
        .iter()
        .map(|(name, curve)| {
            let point =
                |(at, micros): &(f64, f64)| (-(1.0 - at).log10(), micros.max(0.001).log10());
            Series { name: name.clone(), points: curve.iter().map(point).collect() }
        })
        .collect();
    let y = "latency, powers of ten of a microsecond";
    draw(path, title, "nines (1 is p90, 2 is p99)", y, &series)
}

/// A bar chart: for each group on the axis one bar of each series; what a series has no number for
/// has no bar.
#[derive(Clone, Copy, Debug)]
pub struct Bars<'a> {
    /// Above the chart.
    pub title: &'a str,
    /// What the height of a bar is.
    pub unit: &'a str,
    /// The names on the axis.
    pub groups: &'a [String],
    /// The name in the legend, and a height for each group.
    pub series: &'a [(String, Vec<f64>)],
}

/// The part of a group's width that its bars take.
const BARS_WIDTH: f64 = 0.8;

/// The axis is longer than the highest bar by this factor: the legend stands above the bars.
const HEADROOM: f64 = 1.3;

/// Draws bars side by side, group by group.
///
/// Errors: the file cannot be written.
pub fn bars(path: &Path, chart: &Bars<'_>) -> Result<(), PlotError> {
    let heights = || chart.series.iter().flat_map(|(_, heights)| heights).filter(|h| h.is_finite());
    let most = heights().copied().fold(1e-9, f64::max) * HEADROOM;
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE).map_err(failed)?;
    let mut drawn = ChartBuilder::on(&root)
        .caption(chart.title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(72)
        .build_cartesian_2d(0.0..chart.groups.len().max(1) as f64, 0.0..most)
        .map_err(failed)?;
    let mut mesh = drawn.configure_mesh();
    mesh.disable_x_mesh().x_labels(0).y_desc(chart.unit);
    mesh.light_line_style(BLACK.mix(0.05)).draw().map_err(failed)?;
    let width = BARS_WIDTH / chart.series.len().max(1) as f64;
    for (at, (name, heights)) in chart.series.iter().enumerate() {
        let color = Palette99::pick(at).to_rgba();
        let left = |group: usize| group as f64 + (1.0 - BARS_WIDTH) / 2.0 + at as f64 * width;
        let there = heights.iter().copied().enumerate().filter(|(_, height)| height.is_finite());
        let bar = |(group, height): (usize, f64)| {
            let corners = [(left(group), 0.0), (left(group) + width * 0.95, height)];
            Rectangle::new(corners, color.filled())
        };
        let swatch = move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], color.filled());
        drawn.draw_series(there.map(bar)).map_err(failed)?.label(name).legend(swatch);
    }
    let font = ("sans-serif", 13).into_font();
    for (group, name) in chart.groups.iter().enumerate() {
        // Below the axis, and so on the whole area and not on that of the chart.
        let (x, y) = drawn.backend_coord(&(group as f64 + 0.5, 0.0));
        let half = i32::try_from(name.len()).unwrap_or(0) * 3;
        root.draw(&Text::new(name.clone(), (x - half, y + 10), font.clone())).map_err(failed)?;
    }
    let mut legend = drawn.configure_series_labels();
    legend.position(SeriesLabelPosition::UpperRight);
    legend.background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3)).draw().map_err(failed)?;
    root.present().map_err(failed)
}

/// Draws lines over two axes, which are named from left to right and from below.
///
/// Errors: the file cannot be written.
pub fn lines(
    path: &Path,
    title: &str,
    axes: [&str; 2],
    series: &[Series],
) -> Result<(), PlotError> {
    draw(path, title, axes[0], axes[1], series)
}

fn draw(
    path: &Path,
    title: &str,
    x_label: &str,
    y_label: &str,
    series: &[Series],
) -> Result<(), PlotError> {
    let points = || series.iter().flat_map(|series| &series.points);
    let x_max = points().map(|point| point.0).fold(1e-9, f64::max);
    let y_max = points().map(|point| point.1).fold(1e-9, f64::max) * 1.05;
    let y_min = points().map(|point| point.1).fold(0.0, f64::min);
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE).map_err(failed)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(72)
        .build_cartesian_2d(0.0..x_max, y_min..y_max)
        .map_err(failed)?;
    let mut mesh = chart.configure_mesh();
    mesh.x_desc(x_label)
        .y_desc(y_label)
        .light_line_style(BLACK.mix(0.05))
        .draw()
        .map_err(failed)?;
    for (at, series) in series.iter().enumerate() {
        let color = Palette99::pick(at).to_rgba();
        let line = LineSeries::new(series.points.iter().copied(), color.stroke_width(2));
        chart
            .draw_series(line)
            .map_err(failed)?
            .label(&series.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
    }
    let mut legend = chart.configure_series_labels();
    legend.background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3)).draw().map_err(failed)?;
    root.present().map_err(failed)
}

fn failed(error: impl Error) -> PlotError {
    error.to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stand_for_each_number_that_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.svg");
        let groups = ["w100".to_owned(), "rw50".to_owned()];
        let series = [("one".to_owned(), vec![3.0, 5.0]), ("many".to_owned(), vec![9.0, f64::NAN])];
        let chart = Bars { title: "dranges", unit: "ops/s", groups: &groups, series: &series };
        bars(&path, &chart).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let names = ["one", "many", "w100", "rw50", "dranges", "ops/s"];
        assert!(names.iter().all(|part| text.contains(part)));
        // The background, three bars, and in the legend two swatches and the frame twice.
        assert_eq!(text.matches("<rect").count(), 1 + 3 + 2 + 2, "{text}");
        bars(&path, &Bars { groups: &[], series: &[], ..chart }).unwrap();
    }

    #[test]
    fn charts_name_their_runs() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.svg");
        throughput(&path, "load", &[("terrace".into(), &[3, 4, 5]), ("other".into(), &[])])
            .unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(["terrace", "other", "load"].iter().all(|part| text.contains(part)));
        let curve = [(0.0, 1.0), (0.9, 10.0), (0.99, 300.0)];
        latency(&path, "a", &[("terrace".into(), &curve)]).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().contains("nines"));
        let series = Series { name: "values".into(), points: vec![(0.0, 1.0), (1.0, 1.3)] };
        lines(&path, "space", ["share", "bytes"], &[series]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(["values", "space", "share", "bytes"].iter().all(|part| text.contains(part)));
        assert!(throughput(&dir.path().join("no/such"), "x", &[]).is_err());
    }
}
