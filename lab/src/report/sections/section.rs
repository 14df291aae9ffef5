//! A section of a report, and tables by app.

use super::super::app::App;
use super::super::summary::Device;
use crate::tables::Table;
use crate::tables::format::or_nothing;
use crate::tables::stats::{Estimate, Statistic};

/// A part of a device's report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// Heading.
    pub title: String,
    /// Paragraphs.
    pub text: Vec<String>,
    /// Tables.
    pub tables: Vec<Table>,
}

/// Title of the average's row.
pub const AVERAGE: &str = "average";

impl Section {
    /// A section of the tables that have rows; `None` where none has.
    pub(super) fn of(title: &str, text: Vec<String>, mut tables: Vec<Table>) -> Option<Self> {
        tables.retain(|table| !table.rows.is_empty());
        (!tables.is_empty()).then(|| Self {
            title: title.to_owned(),
            text,
            tables,
        })
    }
}

impl Table {
    /// Adds a row for each app that has one of the cells, and where several have, a last one of averages.
    pub(super) fn by_app<C>(
        mut self,
        apps: &[&App],
        columns: &[C],
        cell: impl Fn(&App, &C) -> Option<String>,
        average: impl Fn(&C) -> Option<String>,
    ) -> Self {
        let row = |cells: Vec<Option<String>>| {
            let known = cells.iter().any(Option::is_some);
            known.then(|| cells.into_iter().map(or_nothing))
        };
        for app in apps {
            let cells = columns.iter().map(|column| cell(app, column)).collect();
            let named = |cells| std::iter::once(app.name.clone()).chain(cells);
            self.rows
                .extend(row(cells).map(|cells| named(cells).collect()));
        }
        if self.rows.len() > 1 {
            let named = |cells| std::iter::once(AVERAGE.to_owned()).chain(cells);
            let averages = row(columns.iter().map(average).collect());
            self.rows
                .extend(averages.map(|cells| named(cells).collect()));
        }
        self
    }

    /// Numbers with their spread by app, and their averages.
    pub(super) fn of_statistics<C>(
        self,
        apps: &[&App],
        columns: &[C],
        of: impl Fn(&App, &C) -> Option<Statistic>,
        show: fn(Estimate) -> String,
    ) -> Self {
        let shown = |number: Statistic| show(number.estimate());
        self.by_app(
            apps,
            columns,
            |app, column| of(app, column).map(shown),
            |column| average(apps, |app| of(app, column)).map(shown),
        )
    }
}

/// The mean over the apps that have something to gain, of those that have the number.
pub(super) fn average(apps: &[&App], of: impl Fn(&App) -> Option<Statistic>) -> Option<Statistic> {
    let large = apps.iter().filter(|app| !app.is_tiny());
    Statistic::mean(large.filter_map(|app| of(app)).collect())
}

/// The mean if each of the values is known: of others it would be another mean.
pub(super) fn mean_of_all(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.collect::<Option<_>>()?;
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The heads of a table by app.
pub(super) fn head<T: Into<String>>(columns: impl IntoIterator<Item = T>) -> Vec<String> {
    let columns = columns.into_iter().map(Into::into);
    std::iter::once("app".to_owned()).chain(columns).collect()
}

/// The scenarios of `wanted` that the device has, in that order.
pub(super) fn present<'a>(device: &Device, wanted: &[&'a str]) -> Vec<&'a str> {
    wanted
        .iter()
        .copied()
        .filter(|name| device.scenarios.iter().any(|own| own == name))
        .collect()
}
