// A page of the documentation: as light or dark as Airflow.

import { openOutside } from "./airflow.js";
import { followTheme } from "./theme.js";

followTheme();
for (const link of document.querySelectorAll("a[target=_blank]")) link.addEventListener("click", openOutside);
