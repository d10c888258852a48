"""Flights, weather and planes of New York's airports in 2013, joined in one operator."""
