//! Curves, as data and as SVG.

use anyhow::{Context, anyhow, ensure};
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use plotters::style::colors::full_palette as palette;
use serde::Serialize;
use std::fs;
use std::ops::Range;
use std::path::Path;

/// Size of a plot, in pixels.
const SIZE: (u32, u32) = (800, 480);

/// Colours of curves, told apart by people who see red and green alike.
const COLOURS: [RGBColor; 8] = [
    palette::BLUE_700,
    palette::ORANGE_800,
    palette::TEAL_400,
    palette::PURPLE_400,
    palette::BROWN_600,
    palette::PINK_300,
    palette::GREY_700,
    palette::YELLOW_800,
];

/// A plot of curves.
#[derive(Clone, Debug, Serialize)]
pub struct Plot {
    /// Name of its file, without an ending.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Horizontal axis, with the unit.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// An axis of a plot.
#[derive(Clone, Debug, Serialize)]
pub struct Axis {
    /// What it shows, with the unit.
    pub label: String,
    /// Whether it is logarithmic.
    pub log: bool,
}

/// A curve.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// Its name.
    pub label: String,
    /// Its points, in order.
    pub points: Vec<(f64, f64)>,
}

impl Curve {
    /// A curve of this name.
    pub fn new(label: impl Into<String>, points: Vec<(f64, f64)>) -> Curve {
        let label = label.into();
        Curve { label, points }
    }
}

impl Axis {
    /// A linear axis.
    pub fn linear(label: &str) -> Axis {
        Axis {
            label: label.to_owned(),
            log: false,
        }
    }

    /// A logarithmic axis.
    pub fn log(label: &str) -> Axis {
        Axis {
            label: label.to_owned(),
            log: true,
        }
    }
}

/// Draws a plot; the answer is a whole SVG file.
///
/// # Errors
/// When there is nothing to draw, or a logarithmic axis has a value that is not positive.
pub fn to_svg(plot: &Plot) -> anyhow::Result<String> {
    let x = range(plot, &plot.x, |point| point.0)?;
    let y = range(plot, &plot.y, |point| point.1)?;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        match (plot.x.log, plot.y.log) {
            (false, false) => draw(&area, plot, x, y),
            (false, true) => draw(&area, plot, x, y.log_scale()),
            (true, false) => draw(&area, plot, x.log_scale(), y),
            (true, true) => draw(&area, plot, x.log_scale(), y.log_scale()),
        }
        .map_err(|error| anyhow!("drawing {}: {error}", plot.name))?;
    }
    Ok(svg)
}

/// Draws plots into a folder, which is made where it does not exist; each into the file of its name.
pub(crate) fn write_plots(plots: &[Plot], folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    for plot in plots {
        let path = folder.join(format!("{}.svg", plot.name));
        fs::write(&path, to_svg(plot)?).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// What an axis covers: all points and some room; from zero where it is linear.
fn range(plot: &Plot, axis: &Axis, of: impl Fn(&(f64, f64)) -> f64) -> anyhow::Result<Range<f64>> {
    let values = plot.curves.iter().flat_map(|curve| &curve.points).map(of);
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    ensure!(
        low.is_finite() && high.is_finite(),
        "{} has no points, or not all of its values are numbers",
        plot.name
    );
    if axis.log {
        ensure!(low > 0.0, "{} has {low} on a logarithmic axis", plot.name);
        return Ok(low / 1.2..high * 1.2);
    }
    let high = if high > 0.0 { high * 1.05 } else { 1.0 };
    Ok(low.min(0.0)..high)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

fn draw<'a, X, Y>(area: &Area<'a>, plot: &Plot, x: X, y: Y) -> Drawn<'a>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(area)
        .caption(&plot.title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(68)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .x_desc(&plot.x.label)
        .y_desc(&plot.y.label)
        .light_line_style(WHITE)
        .x_label_formatter(&|value| short(*value))
        .y_label_formatter(&|value| short(*value))
        .draw()?;
    for (index, Curve { label, points }) in plot.curves.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let line = colour.stroke_width(2);
        chart
            .draw_series(LineSeries::new(points.iter().copied(), line).point_size(3))?
            .label(label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], line));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(palette::GREY_400)
        .draw()?;
    area.present()
}

/// A number for an axis: 1500 is 1.5k.
fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{scaled:.2}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: Vec<(f64, f64)>, log: bool) -> Plot {
        Plot {
            name: "p".into(),
            title: "Latency".into(),
            x: Axis::linear("requests/s"),
            y: Axis {
                label: "p99, ms".into(),
                log,
            },
            curves: vec![Curve {
                label: "even <1>".into(),
                points,
            }],
        }
    }

    #[test]
    fn a_plot_has_its_labels_and_curves() {
        for log in [false, true] {
            let svg = to_svg(&plot(vec![(100.0, 1.0), (2000.0, 30.0)], log)).unwrap();
            for part in [
                "<svg",
                "</svg>",
                "polyline",
                "Latency",
                "p99, ms",
                "requests/s",
                "even &lt;1&gt;",
            ] {
                assert!(svg.contains(part), "{part}");
            }
        }
    }

    #[test]
    fn what_cannot_be_drawn_is_said() {
        assert!(to_svg(&plot(Vec::new(), false)).is_err());
        assert!(to_svg(&plot(vec![(1.0, 0.0)], true)).is_err());
        assert!(to_svg(&plot(vec![(1.0, f64::NAN)], false)).is_err());
    }

    #[test]
    fn numbers_on_axes_are_short() {
        let shown = [0.0, 0.25, 10.0, 1500.0, 2e6, -3e9].map(short);
        assert_eq!(shown, ["0", "0.25", "10", "1.5k", "2M", "-3G"]);
    }
}
