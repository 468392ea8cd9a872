// Tables in the order that a head was pressed for. The address has it: `sort=cpu`, or `sort=-cpu` the other way round.

import { byName } from "./filter";

export interface Column<T> {
  key: string;
  label: string;
  /** What is compared; what has none comes last either way. */
  value: (row: T) => string | number | null;
  class?: string;
}

/** The rows by the column that `sort` names; in the order they came in where it names none. */
export function sorted<T>(rows: T[], columns: readonly Column<T>[], sort: string): T[] {
  const down = sort.startsWith("-");
  const column = columns.find(({ key }) => key === sort.slice(Number(down)));
  if (!column) return rows;
  const compared = (one: string | number, other: string | number): number =>
    typeof one === "number" && typeof other === "number" ? one - other : byName(String(one), String(other));
  return rows.toSorted((one, other) => {
    const [left, right] = [column.value(one), column.value(other)];
    if (left === null || right === null) return Number(left === null) - Number(right === null);
    return (down ? -1 : 1) * compared(left, right);
  });
}

/** What a press on a head makes of the order: up, down, and back to the usual one. */
export function pressed(sort: string, key: string): string {
  return sort === key ? `-${key}` : sort === `-${key}` ? "" : key;
}
