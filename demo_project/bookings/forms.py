from django import forms

from .models import Booking


class BookingForm(forms.ModelForm):
    """The web form, and the check of the rows of the CSV file."""

    class Meta:
        model = Booking
        fields = ("visitor", "email", "city", "arrival", "departure")
        widgets = {
            "visitor": forms.TextInput(attrs={"autocomplete": "name", "autofocus": True}),
            "email": forms.EmailInput(attrs={"autocomplete": "email"}),
            # Suggestions only: a booking to where nobody flies is let through, and becomes a dead letter.
            "city": forms.TextInput(attrs={"list": "cities", "autocomplete": "off"}),
            "arrival": forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
            "departure": forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
        }
