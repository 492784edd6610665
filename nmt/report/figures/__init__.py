"""The figures of a report: curves, heat maps, attention, neighbours of pictures, error profiles."""
