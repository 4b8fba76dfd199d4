//! The matrix as a table in the README.
//!
//! What always holds: only what stands between the two marks is compared or written.

use std::path::Path;

use super::Cell;

const BEGIN: &str = "<!-- matrix: measured by `tests/run --test it matrix` -->\n";
const END: &str = "<!-- end of matrix -->\n";

const HEAD: &str = "\
| what goes wrong | SDK retries alone | SDK + operations table + leader election | Fencepost |
|---|---|---|---|
";

/// Harm stands out.
pub fn table(measured: &[(&str, Vec<Cell>)]) -> String {
    let rows = measured.iter().map(|(name, cells)| {
        let cells: Vec<String> = cells.iter().map(cell).collect();
        format!("| {name} | {} |\n", cells.join(" | "))
    });
    HEAD.to_owned() + &rows.collect::<String>()
}

fn cell(cell: &Cell) -> String {
    let Cell {
        effects,
        note,
        harm,
    } = cell;
    let mark = if *harm { "**" } else { "" };
    let comma = if note.is_empty() { "" } else { ", " };
    format!("{mark}{effects}{comma}{note}{mark}")
}

/// Panics if the README says anything else, unless it is to be written.
pub fn compare_or_write(table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, said, after) = around(&text).expect("the README has both marks of the matrix");
    if std::env::var("FENCEPOST_MATRIX").is_ok_and(|it| it == "write") {
        std::fs::write(path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        return;
    }
    assert!(
        said == table,
        "the README says\n{said}\nand measured was\n{table}\n\
         If that is right: FENCEPOST_MATRIX=write tests/run --test it matrix"
    );
}

/// What stands before, between and after the marks.
fn around(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (said, after) = rest.split_once(END)?;
    Some((before, said, after))
}

#[test]
fn harm_stands_out_and_only_what_is_between_the_marks_counts() {
    let plain = Cell {
        effects: 1,
        note: "",
        harm: false,
    };
    let harm = Cell {
        effects: 2,
        note: "the old one last",
        harm: true,
    };
    let table = table(&[("a", vec![plain, harm])]);
    assert!(table.ends_with("| a | 1 | **2, the old one last** |\n"));
    let text = format!("x{BEGIN}{table}{END}y");
    assert_eq!(around(&text), Some(("x", table.as_str(), "y")));
    assert_eq!(around(&table), None);
}
