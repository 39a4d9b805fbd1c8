//! A line chart as SVG text, in the colours of its page.

use plotters::prelude::*;

use super::super::error::BenchError;
use super::super::targets::short;
use super::escape::escape;

/// Colours that differ on light and on dark backgrounds.
pub const COLOURS: [RGBColor; 6] = [
    RGBColor(0x3b, 0x82, 0xf6),
    RGBColor(0xf9, 0x73, 0x16),
    RGBColor(0x22, 0xa0, 0x6b),
    RGBColor(0xa8, 0x55, 0xf7),
    RGBColor(0xe5, 0x48, 0x4d),
    RGBColor(0x14, 0xb8, 0xc4),
];
/// Placeholder of the page's colour of text; `FAINT` is that of thin lines.
const INK: RGBColor = RGBColor(1, 2, 3);
const FAINT: RGBColor = RGBColor(3, 2, 1);

/// A point in the units of the axes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlotPoint {
    /// Across.
    pub x: f64,
    /// Up.
    pub y: f64,
}

impl PlotPoint {
    /// The point (x, y).
    #[must_use]
    pub const fn new(x: f64, y: f64) -> Self {
        Self { x, y }
    }
}

/// One line.
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its points.
    pub points: Vec<PlotPoint>,
    /// Drawn as a thin line without points.
    pub is_reference: bool,
}

impl Series {
    /// A measured line.
    pub fn measured(name: impl Into<String>, points: Vec<PlotPoint>) -> Self {
        Self {
            name: name.into(),
            points,
            is_reference: false,
        }
    }

    /// A line for comparison.
    pub fn reference(name: impl Into<String>, points: Vec<PlotPoint>) -> Self {
        Self {
            is_reference: true,
            ..Self::measured(name, points)
        }
    }
}

/// One axis.
#[derive(Clone, Copy)]
pub struct Axis {
    /// The quantity, with its unit.
    pub label: &'static str,
    /// Equal ratios are equally far apart.
    pub is_log: bool,
}

impl Axis {
    /// An axis from zero.
    #[must_use]
    pub const fn linear(label: &'static str) -> Self {
        Self { label, is_log: false }
    }

    /// A logarithmic axis.
    #[must_use]
    pub const fn log(label: &'static str) -> Self {
        Self { label, is_log: true }
    }

    fn place(self, value: f64) -> f64 {
        if self.is_log {
            value.max(1e-9).log10()
        } else {
            value
        }
    }

    fn text(self, place: f64) -> String {
        let value = if self.is_log { 10_f64.powf(place) } else { place };
        match value {
            million if million >= 1e6 => format!("{} M", trim(million / 1e6)),
            thousand if thousand >= 1e4 => format!("{} k", trim(thousand / 1e3)),
            other => trim(other),
        }
    }

    /// The axis's range for these values.
    fn range(self, values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
        let (mut low, mut high) = (f64::MAX, f64::MIN);
        for value in values {
            (low, high) = (low.min(self.place(value)), high.max(self.place(value)));
        }
        if low > high {
            return 0.0..1.0;
        }
        if self.is_log {
            low - 0.1..high + 0.1
        } else {
            0.0..(high * 1.1).max(1e-6)
        }
    }
}

/// At most three significant digits.
fn trim(value: f64) -> String {
    let text = if value >= 10.0 {
        format!("{value:.0}")
    } else {
        short(value)
    };
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// The chart; an empty text where there is no point.
///
/// # Errors
/// Errors of the drawing library.
pub fn chart(x: Axis, y: Axis, series: &[Series]) -> Result<String, BenchError> {
    let points = || series.iter().flat_map(|series| &series.points);
    if points().next().is_none() {
        return Ok(String::new());
    }
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (640, 340)).into_drawing_area();
        let mut builder = ChartBuilder::on(&root);
        builder.margin(12).x_label_area_size(44).y_label_area_size(64);
        let (across, up) = (
            x.range(points().map(|point| point.x)),
            y.range(points().map(|point| point.y)),
        );
        let mut chart = builder.build_cartesian_2d(across, up).map_err(BenchError::of)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(FAINT)
            .axis_style(INK)
            .label_style(("sans-serif", 13, &INK))
            .x_desc(x.label)
            .y_desc(y.label)
            .x_labels(7)
            .y_labels(6)
            .x_label_formatter(&|place| x.text(*place))
            .y_label_formatter(&|place| y.text(*place))
            .draw()
            .map_err(BenchError::of)?;
        for (place, line) in series.iter().enumerate() {
            draw(&mut chart, x, y, line, COLOURS[place % COLOURS.len()])?;
        }
        root.present().map_err(BenchError::of)?;
    }
    Ok(themed(&svg))
}

type Chart<'a, 'b> = ChartContext<
    'a,
    SVGBackend<'b>,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;

fn draw(
    chart: &mut Chart<'_, '_>,
    x: Axis,
    y: Axis,
    line: &Series,
    colour: RGBColor,
) -> Result<(), BenchError> {
    let points: Vec<(f64, f64)> = line
        .points
        .iter()
        .map(|point| (x.place(point.x), y.place(point.y)))
        .collect();
    let width = if line.is_reference { 1 } else { 2 };
    chart
        .draw_series(LineSeries::new(
            points.iter().copied(),
            colour.stroke_width(width),
        ))
        .map_err(BenchError::of)?;
    if !line.is_reference {
        let dots = points.iter().map(|&at| Circle::new(at, 3, colour.filled()));
        chart.draw_series(dots).map_err(BenchError::of)?;
    }
    Ok(())
}

/// The legend, as text of the page.
#[must_use]
pub fn legend(series: &[Series]) -> String {
    let entry = |(place, line): (usize, &Series)| {
        let RGBColor(r, g, b) = COLOURS[place % COLOURS.len()];
        let kind = if line.is_reference {
            "reference"
        } else {
            "measured"
        };
        format!(
            "<span class=\"{kind}\"><i style=\"background:rgb({r},{g},{b})\"></i>{}</span>",
            escape(&line.name)
        )
    };
    let entries: Vec<String> = series.iter().enumerate().map(entry).collect();
    format!("<p class=\"legend\">{}</p>", entries.join(" "))
}

/// The SVG with the page's colours in place of the placeholders.
fn themed(svg: &str) -> String {
    let mut text = svg.to_owned();
    for (colour, variable) in [("#010203", "ink"), ("#030201", "faint")] {
        for attribute in ["fill", "stroke"] {
            text = text.replace(
                &format!("{attribute}=\"{colour}\""),
                &format!("style=\"{attribute}:var(--{variable})\""),
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_takes_its_colours_from_the_page() {
        let series = [Series::measured(
            "a",
            vec![PlotPoint::new(10.0, 1.0), PlotPoint::new(1e6, 20.0)],
        )];
        let svg = chart(Axis::log("flows"), Axis::linear("ns"), &series).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("var(--ink)") && svg.contains("var(--faint)"));
        assert!(!svg.contains("#010203"));
        assert_eq!(chart(Axis::log("x"), Axis::linear("y"), &[]).unwrap(), "");
    }

    #[test]
    fn labels_are_short() {
        let axis = Axis::log("flows");
        assert_eq!(axis.text(6.0), "1 M");
        assert_eq!(axis.text(4.0), "10 k");
        assert_eq!(Axis::linear("ns").text(2.5), "2.5");
        assert_eq!(Axis::linear("ns").text(0.0), "0");
    }
}
