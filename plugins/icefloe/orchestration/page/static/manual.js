// A page of the documentation: as light or dark as Airflow.

import { followTheme } from "./theme.js";

followTheme();
