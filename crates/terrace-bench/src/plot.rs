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
        assert!(throughput(&dir.path().join("no/such"), "x", &[]).is_err());
    }
}
